(* The noise (docs/proofs/noise.md): rounding as post-processing (section 1), the exponents of Lemmas 1 and 2 and the
   program's rounding (section 2), and clipping (section 5).

   Not here: that accepted proposals have the wanted law, and that random bits are uniform.

   Relied on by: `_gaussian_exponent`, `_laplace_exponent` and `_round_cells` of src/dpem/privacy/noise.py,
   `release` of src/dpem/privacy/mechanisms.py. *)
From Coq Require Import Reals ZArith Lia Lra.
From Flocq Require Import Core.
From DPEM Require Import Constants.
Open Scope R_scope.

(* -- section 1 ---------------------------------------------------------------------------------------- *)

Lemma floor_shift q x : Zfloor (IZR q + x) = (q + Zfloor x)%Z.
Proof.
  apply Zfloor_imp; rewrite <- Z.add_assoc, !plus_IZR.
  pose proof (Zfloor_lb x); pose proof (Zfloor_ub x); lra.
Qed.

Definition tie (x : R) : Prop := x - IZR (Zfloor x) = / 2.

Lemma nearest_floor choice x : ~ tie x -> Znearest choice x = Zfloor (x + / 2).
Proof.
  intros H; unfold Znearest, tie in *; pose proof (Zfloor_lb x); pose proof (Zfloor_ub x).
  symmetry; destruct (Rcompare_spec (x - IZR (Zfloor x)) (/ 2)); [| easy |].
  - apply Zfloor_imp; rewrite plus_IZR; lra.
  - rewrite Zceil_floor_neq by lra; apply Zfloor_imp; rewrite !plus_IZR; lra.
Qed.

(* q + round(Y) = round(q + Y), whatever the rule at ties, which have probability zero. *)
Theorem rounding_is_post_processing choice q y : ~ tie y ->
  (q + Znearest choice y)%Z = Znearest choice (IZR q + y).
Proof.
  intros H; rewrite !nearest_floor; [now rewrite Rplus_assoc, floor_shift | | easy].
  unfold tie in *; rewrite floor_shift, plus_IZR; lra.
Qed.

(* -- section 2: exponents -------------------------------------------------------------------------------- *)

(* Lemma 1, steps 1, 2 and 4, with y = t (v + u) and r = t / s. *)
Theorem gaussian_exponent s t v u : 0 < s -> 0 < t -> 0 <= u ->
  let r := t / s in let y := t * (v + u) in let x := (r * (v + u) - / r) ^ 2 / 2 + u in
  x = y ^ 2 / (2 * s ^ 2) - v + s ^ 2 / (2 * t ^ 2) /\ 0 <= x.
Proof.
  intros S T U r y x; split; [unfold x, r, y; field; lra|].
  unfold x; pose proof (pow2_ge_0 (r * (v + u) - / r)); lra.
Qed.

Theorem gaussian_exponent_increases s t v u u' : 0 < s -> 0 < t -> 0 <= v -> 0 <= u <= u' ->
  let r := t / s in
  (r * (v + u) - / r) ^ 2 / 2 + u <= (r * (v + u') - / r) ^ 2 / 2 + u'.
Proof.
  intros S T V U r.
  destruct (gaussian_exponent s t v u S T) as (E & _); [lra|].
  destruct (gaussian_exponent s t v u' S T) as (E' & _); [lra|].
  cbn zeta in E, E'; fold r in E, E'; rewrite E, E'.
  assert ((t * (v + u)) ^ 2 <= (t * (v + u')) ^ 2) as M.
  { apply pow_incr; split; [apply Rmult_le_pos; lra | apply Rmult_le_compat_l; lra]. }
  assert (0 < / (2 * s ^ 2)) by (apply Rinv_0_lt_compat; nra).
  unfold Rdiv; nra.
Qed.

(* Lemma 2, with y = t (v + u) and r = t / b >= 1. *)
Theorem laplace_exponent b t v u : 0 < b -> 0 < t ->
  let r := t / b in let y := t * (v + u) in (r - 1) * v + r * u = y / b - v.
Proof. intros B T r y; unfold r, y; field; lra. Qed.

Theorem laplace_exponent_increases r v u u' : 1 <= r -> 0 <= v -> 0 <= u <= u' ->
  0 <= (r - 1) * v + r * u <= (r - 1) * v + r * u'.
Proof. intros; split; nra. Qed.

(* -- section 2: rounding -------------------------------------------------------------------------------- *)

(* round(y) = (floor(2 y) + 1) >> 1. *)
Theorem round_by_halves y : ((Zfloor (2 * y) + 1) / 2)%Z = Zfloor (y + / 2).
Proof.
  symmetry; apply Zfloor_imp; set (n := Zfloor (2 * y)).
  pose proof (Zfloor_lb (2 * y)) as L; pose proof (Zfloor_ub (2 * y)) as U; fold n in L, U.
  pose proof (Z.div_mod (n + 1) 2 ltac:(lia)); pose proof (Z.mod_pos_bound (n + 1) 2 ltac:(lia)).
  set (h := ((n + 1) / 2)%Z) in *.
  assert (2 * h <= n + 1)%Z as A by lia; assert (n + 1 <= 2 * h + 1)%Z as B by lia.
  apply IZR_le in A, B; rewrite ?plus_IZR, ?mult_IZR in *; lra.
Qed.

Lemma floor_div x n : (0 < n)%Z -> Zfloor (x / IZR n) = (Zfloor x / n)%Z.
Proof.
  intros N; apply Zfloor_imp.
  pose proof (Zfloor_lb x) as L; pose proof (Zfloor_ub x) as U.
  pose proof (Z.div_mod (Zfloor x) n ltac:(lia)) as D; pose proof (Z.mod_pos_bound (Zfloor x) n N) as M.
  set (q := (Zfloor x / n)%Z) in *.
  assert (n * q <= Zfloor x)%Z as A by lia; assert (Zfloor x + 1 <= n * q + n)%Z as B by lia.
  apply IZR_le in A, B; apply IZR_lt in N; rewrite ?plus_IZR, ?mult_IZR in *.
  split; [apply Rmult_le_reg_r with (IZR n) | apply Rmult_lt_reg_r with (IZR n)]; try easy;
    replace (x / IZR n * IZR n) with x by (field; lra); lra.
Qed.

(* `_round_cells`: from V and the first FRACTION_BITS bits of U, which the further bits cannot change. *)
Definition round_cells (v fraction log2_cell : Z) : Z :=
  let shift := (log2_cell + 1)%Z in
  let halves := if Z.leb 0 shift
                then (fraction / 2 ^ (Z.of_nat FRACTION_BITS - shift) + v * 2 ^ shift)%Z
                else (v / 2 ^ (- shift))%Z in
  ((halves + 1) / 2)%Z.

(* The bits that are known of U. *)
Definition known_bits (u : R) : Z := Zfloor (u * IZR (2 ^ Z.of_nat FRACTION_BITS)).

Theorem round_cells_rounds v u k : 0 <= u < 1 ->
  (k + 1 <= Z.of_nat FRACTION_BITS)%Z ->
  round_cells v (known_bits u) k = Zfloor (bpow radix2 k * (IZR v + u) + / 2).
Proof.
  intros U K; unfold round_cells, known_bits; rewrite <- round_by_halves; f_equal; f_equal.
  replace (2 * (bpow radix2 k * (IZR v + u))) with (bpow radix2 (k + 1) * (IZR v + u))
    by (rewrite bpow_plus; change (bpow radix2 1) with 2; ring).
  set (shift := (k + 1)%Z) in *; destruct (Z.leb_spec 0 shift) as [P|P].
  - assert (B : bpow radix2 shift = IZR (2 ^ shift)) by (symmetry; apply (IZR_Zpower radix2); easy).
    rewrite B, Rmult_plus_distr_l, <- mult_IZR, (Z.mul_comm (2 ^ shift) v), floor_shift, Z.add_comm; f_equal.
    set (F := Z.of_nat FRACTION_BITS) in *.
    rewrite <- floor_div by (apply Z.pow_pos_nonneg; lia); f_equal.
    replace (IZR (2 ^ F)) with (IZR (2 ^ shift) * IZR (2 ^ (F - shift)))
      by (rewrite <- mult_IZR, <- Z.pow_add_r by lia; do 2 f_equal; lia).
    field; apply not_0_IZR; apply Z.pow_nonzero; lia.
  - assert (B : bpow radix2 shift = / IZR (2 ^ (- shift))).
    { replace shift with (- - shift)%Z at 1 by lia; rewrite bpow_opp; f_equal.
      symmetry; apply (IZR_Zpower radix2); lia. }
    rewrite B, Rmult_comm; change ((IZR v + u) * / IZR (2 ^ - shift)) with ((IZR v + u) / IZR (2 ^ - shift)).
    rewrite floor_div by (apply Z.pow_pos_nonneg; lia); f_equal.
    rewrite floor_shift, (Zfloor_imp 0); [lia | cbn; lra].
Qed.

(* The sign: the code subtracts the rounded magnitude. *)
Theorem signed_rounding q y : ~ tie y -> (q - (Zfloor (2 * y) + 1) / 2)%Z = Zfloor (IZR q - y + / 2).
Proof.
  intros T; rewrite round_by_halves.
  replace (IZR q - y + / 2) with (IZR q + (- y + / 2)) by lra; rewrite floor_shift.
  set (n := Zfloor (y + / 2)); pose proof (Zfloor_lb (y + / 2)) as L; pose proof (Zfloor_ub (y + / 2)) as U.
  fold n in L, U; enough (Zfloor (- y + / 2) = - n)%Z by lia.
  apply Zfloor_imp; rewrite plus_IZR, opp_IZR.
  enough (y + / 2 <> IZR n) by lra.
  intros E; apply T; unfold tie; rewrite (Zfloor_imp (n - 1)); rewrite ?plus_IZR, ?minus_IZR; lra.
Qed.

(* -- section 5 ---------------------------------------------------------------------------------------- *)

(* A clipped statistic and noise below 2^62 do not overflow 64 bits. *)
Theorem sum_fits q noise : (Z.abs q <= 2 ^ Z.of_nat LARGEST_STATISTIC_BITS - 1)%Z -> (Z.abs noise < 2 ^ 62)%Z ->
  (- 2 ^ 63 <= q + noise < 2 ^ 63)%Z.
Proof. change (Z.of_nat LARGEST_STATISTIC_BITS) with 62%Z; lia. Qed.

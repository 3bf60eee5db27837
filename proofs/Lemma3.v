(* Lemma 3 of the noise (docs/proofs/noise.md, section 3), and the decisions that rest on it. For V <= 15 the
   computed exponent differs from x by less than 2^-41, whatever the unknown bits of U are. If the relative error of exp is below 2^-32, an attempt that
   the fast path accepts or rejects is one that the exact comparison accepts or rejects.

   Floats round to nearest, with any rule at ties. The accuracy of exp is an assumption.

   Relied on by: `_attempt` of src/dpem/privacy/noise.py. *)
From Coq Require Import Reals ZArith Lia Lra Psatz.
From Flocq Require Import Core Relative.
From DPEM Require Import Constants.
Open Scope R_scope.

Definition eta : R := / 2 ^ 53.

Lemma eta_bounds : 0 < eta <= / 9000000000000000.
Proof. unfold eta; split; [apply Rinv_0_lt_compat, pow_lt; lra | apply Rinv_le_contravar; lra]. Qed.

(* -- errors of single operations ------------------------------------------------------------------------ *)

Definition near (computed exact E : R) : Prop := - (eta * E) <= computed - exact <= eta * E.

Lemma near_product a a' b b' E F A B : near a a' E -> near b b' F -> 0 <= E -> 0 <= F ->
  - A <= a' <= A -> - B <= b <= B -> near (a * b) (a' * b') (E * B + A * F).
Proof.
  intros Na Nb HE HF Ha Hb; unfold near in *; pose proof eta_bounds.
  assert (0 <= eta * E) by (apply Rmult_le_pos; lra); assert (0 <= eta * F) by (apply Rmult_le_pos; lra).
  apply Rabs_le_inv; replace (a * b - a' * b') with ((a - a') * b + a' * (b - b')) by ring.
  eapply Rle_trans; [apply Rabs_triang|]; rewrite !Rabs_mult.
  assert (Rabs (a - a') <= eta * E) by (apply Rabs_le; lra); assert (Rabs (b - b') <= eta * F) by (apply Rabs_le; lra).
  assert (Rabs b <= B) by (apply Rabs_le; lra); assert (Rabs a' <= A) by (apply Rabs_le; lra).
  replace (eta * (E * B + A * F)) with (eta * E * B + A * (eta * F)) by ring.
  apply Rplus_le_compat; apply Rmult_le_compat; auto using Rabs_pos.
Qed.

Lemma near_inverse a a' E m : near a a' E -> 0 <= E -> 0 < m -> m <= a -> m <= a' ->
  near (/ a) (/ a') (E / (m * m)).
Proof.
  intros N HE M Ha Ha'; unfold near in *; pose proof eta_bounds.
  assert (0 <= eta * E) by (apply Rmult_le_pos; lra).
  apply Rabs_le_inv; replace (/ a - / a') with ((a' - a) * / (a * a')) by (field; lra).
  rewrite Rabs_mult; replace (eta * (E / (m * m))) with (eta * E * / (m * m)) by (unfold Rdiv; ring).
  assert (0 < a * a') by (apply Rmult_lt_0_compat; lra); assert (m * m <= a * a') by (apply Rmult_le_compat; lra).
  apply Rmult_le_compat; try apply Rabs_pos; [apply Rabs_le; lra|].
  rewrite Rabs_pos_eq by (left; now apply Rinv_0_lt_compat).
  apply Rinv_le_contravar; [now apply Rmult_lt_0_compat | easy].
Qed.

Section Errors.
Variable choice : Z -> bool.   (* the rule at ties *)
Definition fl (x : R) : R := round radix2 (FLT_exp (-1074) 53) (Znearest choice) x.

Lemma fl_zero : fl 0 = 0.
Proof. apply round_0, valid_rnd_N. Qed.

Lemma error_of_positive x : 0 < x -> - (eta * (x + / 1000)) <= fl x - x <= eta * (x + / 1000).
Proof.
  intros P.
  destruct (error_N_FLT_aux radix2 (-1074) 53 ltac:(reflexivity) choice x P) as (d & t & D & T & _ & E).
  fold (fl x) in E; rewrite E.
  assert (B : bpow radix2 (- (53) + 1) = 2 * eta) by (cbn; unfold eta; field).
  assert (S : bpow radix2 (-1074) <= eta / 1000).
  { apply Rle_trans with (bpow radix2 (-63)); [apply bpow_le; lia|].
    cbn; unfold eta; lra. }
  rewrite B in D; apply Rabs_le_inv in D, T; pose proof eta_bounds.
  assert (- (eta * x) <= x * d <= eta * x) by (split; nra); lra.
Qed.

(* Rounding a number of size at most M adds at most M eta, and next to nothing. *)
Lemma near_rounded x y E M : near x y E -> - M <= x <= M -> near (fl x) y (E + M + / 1000).
Proof.
  intros N H; unfold near in *; pose proof eta_bounds as (P & _).
  assert (R : - (eta * (M + / 1000)) <= fl x - x <= eta * (M + / 1000)); [|lra].
  destruct (Rtotal_order x 0) as [L|[-> |G]].
  - pose proof (error_of_positive (- x)) as Q; destruct Q as (Q1 & Q2); [lra|].
    assert (O : forall z, z < 0 -> - (eta * (- z + / 1000)) <= fl z - z <= eta * (- z + / 1000)).
    { intros z Z.
      destruct (error_N_FLT radix2 (-1074) 53 ltac:(reflexivity) choice z) as (d & t & D & T & _ & E1).
      fold (fl z) in E1; rewrite E1.
      assert (B : bpow radix2 (- (53) + 1) = 2 * eta) by (cbn; unfold eta; field).
      assert (S : bpow radix2 (-1074) <= eta / 1000).
      { apply Rle_trans with (bpow radix2 (-63)); [apply bpow_le; lia|]; cbn; unfold eta; lra. }
      rewrite B in D; apply Rabs_le_inv in D, T; assert (- (eta * - z) <= z * d <= eta * - z) by (split; nra); lra. }
    assert (eta * (- x + / 1000) <= eta * (M + / 1000)) by (apply Rmult_le_compat_l; lra).
    specialize (O x L); lra.
  - assert (0 <= eta * (M + / 1000)) by (apply Rmult_le_pos; lra); rewrite fl_zero; lra.
  - assert (eta * (x + / 1000) <= eta * (M + / 1000)) by (apply Rmult_le_compat_l; lra).
    pose proof (error_of_positive x G); lra.
Qed.

(* -- U and its float ----------------------------------------------------------------------------------- *)

(* The program knows f, the first 63 bits of U. *)
Definition computed_u (f : Z) : R := fl (fl (IZR f) * / 2 ^ FRACTION_BITS).

Lemma u_error u f : 0 <= u < 1 -> IZR f <= u * 2 ^ FRACTION_BITS < IZR f + 1 -> (0 <= f)%Z ->
  near (computed_u f) u (21 / 10) /\ 0 <= u <= 1.
Proof.
  intros U F P; split; [|lra]; apply IZR_le in P; unfold computed_u, FRACTION_BITS in *.
  set (c := 2 ^ 63) in *; assert (C : c = 9223372036854775808) by (unfold c; ring); clearbody c.
  set (x := IZR f) in *; clearbody x; pose proof eta_bounds as (e0 & e1).
  assert (B : 0 <= x <= c) by (split; [easy|]; assert (u * c <= 1 * c) by (apply Rmult_le_compat_r; lra); lra).
  pose proof (near_rounded x x 0 c) as N1; unfold near in N1.
  assert (- (eta * 0) <= x - x <= eta * 0) as Z by lra; specialize (N1 Z ltac:(lra)); clear Z.
  set (y := fl x) in *; clearbody y.
  (* Scaled to [0, 1), with the unknown bits. *)
  assert (N2 : near (y * / c) u (1 + / 500)).
  { unfold near; rewrite C in *.
    assert (/ 9223372036854775808 <= eta / 1000) by (unfold eta; lra).
    assert (eta * / 9223372036854775808 <= eta * / 1000000) by (apply Rmult_le_compat_l; lra).
    lra. }
  assert (Y : -2 <= y * / c <= 2) by (unfold near in N2; lra).
  pose proof (near_rounded (y * / c) u (1 + / 500) (1 + / 400)) as N3.
  assert (near (fl (y * / c)) u (1 + / 500 + (1 + / 400) + / 1000)) as N4
    by (apply N3; [easy | unfold near in N2; lra]).
  unfold near in *; lra.
Qed.

(* -- the Gaussian exponent ------------------------------------------------------------------------------ *)

Definition gaussian_exponent (v u r : R) : R := (r * (v + u) - / r) * (r * (v + u) - / r) / 2 + u.

(* The program's order of operations, with `deviation` computed once. *)
Definition computed_deviation (v u r : R) : R := fl (fl (r * fl (v + u)) - fl (/ r)).
Definition computed_gaussian (v u r : R) : R :=
  fl (fl (fl (computed_deviation v u r * computed_deviation v u r) / 2) + u).

Theorem lemma3_gaussian v f u r : (0 <= v <= Z.of_nat LARGEST_FAST_V)%Z -> 0 <= u < 1 -> (0 <= f)%Z ->
  IZR f <= u * 2 ^ FRACTION_BITS < IZR f + 1 -> 70 / 100 <= r <= 142 / 100 ->
  Rabs (computed_gaussian (IZR v) (computed_u f) (fl r) - gaussian_exponent (IZR v) u r) < / 2 ^ 41.
Proof.
  intros V U P F Hr; destruct (u_error u f U F P) as (Nu & _); set (uh := computed_u f) in *.
  assert (V' : 0 <= IZR v <= 15) by (split; [apply (IZR_le 0) | apply (IZR_le v 15)]; unfold LARGEST_FAST_V in V; lia).
  set (w := IZR v) in *; pose proof eta_bounds as (e0 & e1).
  (* The ratio. *)
  assert (Nr : near (fl r) r (143 / 100)).
  { pose proof (near_rounded r r 0 (142 / 100)) as N; unfold near in *; lra. }
  set (rh := fl r) in *.
  (* V + U: size 16. *)
  assert (N1 : near (fl (w + uh)) (w + u) (182 / 10)).
  { pose proof (near_rounded (w + uh) (w + u) (21 / 10) (1600001 / 100000)) as N; unfold near in *; lra. }
  set (s := fl (w + uh)) in *.
  (* Its product with the ratio: size 22.8. *)
  assert (N2 : near (rh * s) (r * (w + u)) (143 / 100 * (1600001 / 100000) + 142 / 100 * (182 / 10))).
  { apply near_product; try easy; unfold near in *; lra. }
  assert (B2 : 0 <= r * (w + u) <= 2272 / 100).
  { split; [apply Rmult_le_pos; lra|]; replace (2272 / 100) with (142 / 100 * 16) by field.
    apply Rmult_le_compat; lra. }
  assert (N3 : near (fl (rh * s)) (r * (w + u)) 72).
  { pose proof (near_rounded (rh * s) (r * (w + u)) _ (228 / 10) N2) as N; unfold near in *; lra. }
  set (p := fl (rh * s)) in *.
  (* 1 / r. *)
  assert (N4 : near (/ rh) (/ r) (143 / 100 / (69 / 100 * (69 / 100)))).
  { apply near_inverse; try easy; unfold near in *; lra. }
  assert (B4 : 0 < / r <= 143 / 100).
  { split; [apply Rinv_0_lt_compat; lra|]; replace (143 / 100) with (/ (100 / 143)) by field.
    apply Rinv_le_contravar; lra. }
  assert (N5 : near (fl (/ rh)) (/ r) (45 / 10)).
  { pose proof (near_rounded (/ rh) (/ r) _ (144 / 100) N4) as N; unfold near in *; lra. }
  set (i := fl (/ rh)) in *.
  (* The difference: size 22.8. *)
  assert (N6 : near (fl (p - i)) (r * (w + u) - / r) 100).
  { pose proof (near_rounded (p - i) (r * (w + u) - / r) (765 / 10) (228 / 10)) as N; unfold near in *; lra. }
  unfold computed_gaussian, computed_deviation, gaussian_exponent; fold s; fold p; fold i.
  set (dh := fl (p - i)) in *; set (d := r * (w + u) - / r) in *.
  assert (D : - (1430 / 1000) <= d <= 2272 / 100) by (unfold d; lra).
  (* Its square: size 520. *)
  assert (N7 : near (dh * dh) (d * d) (100 * (228 / 10) + 228 / 10 * 100)).
  { apply near_product; try easy; unfold near in *; lra. }
  assert (B7 : 0 <= d * d <= 5165 / 10).
  { split; [apply Rle_0_sqr|]; assert (0 <= (2272 / 100 - d) * (d + 2272 / 100)) by (apply Rmult_le_pos; lra); lra. }
  assert (N8 : near (fl (dh * dh)) (d * d) 5100).
  { pose proof (near_rounded (dh * dh) (d * d) _ 520 N7) as N; unfold near in *; lra. }
  set (q := fl (dh * dh)) in *.
  (* Half of it, plus u: size 262. *)
  assert (N9 : near (fl (q / 2)) (d * d / 2) 2811).
  { pose proof (near_rounded (q / 2) (d * d / 2) 2550 260) as N; unfold near in *; lra. }
  set (hh := fl (q / 2)) in *.
  assert (N10 : near (fl (hh + uh)) (d * d / 2 + u) 3080).
  { pose proof (near_rounded (hh + uh) (d * d / 2 + u) (28131 / 10) 262) as N; unfold near in *; lra. }
  unfold near in N10; apply Rabs_def1; unfold eta in *; lra.
Qed.

(* -- the Laplace exponent -------------------------------------------------------------------------------- *)

Theorem lemma3_laplace v f u r : (0 <= v <= Z.of_nat LARGEST_FAST_V)%Z -> 0 <= u < 1 -> (0 <= f)%Z ->
  IZR f <= u * 2 ^ FRACTION_BITS < IZR f + 1 -> 1 <= r <= 2 ->
  Rabs (fl (fl (fl (fl r - 1) * IZR v) + fl (fl r * computed_u f)) - ((r - 1) * IZR v + r * u)) < / 2 ^ 41.
Proof.
  intros V U P F Hr; destruct (u_error u f U F P) as (Nu & _); set (uh := computed_u f) in *.
  assert (V' : 0 <= IZR v <= 15) by (split; [apply (IZR_le 0) | apply (IZR_le v 15)]; unfold LARGEST_FAST_V in V; lia).
  set (w := IZR v) in *; pose proof eta_bounds as (e0 & e1).
  assert (Nr : near (fl r) r (201 / 100)).
  { pose proof (near_rounded r r 0 2) as N; unfold near in *; lra. }
  set (rh := fl r) in *.
  assert (N1 : near (fl (rh - 1)) (r - 1) (31 / 10)).
  { pose proof (near_rounded (rh - 1) (r - 1) (201 / 100) (101 / 100)) as N; unfold near in *; lra. }
  set (a := fl (rh - 1)) in *.
  assert (N2 : near (a * w) ((r - 1) * w) (31 / 10 * 15 + 1 * 0)).
  { apply near_product; try easy; unfold near in *; lra. }
  assert (B2 : 0 <= (r - 1) * w <= 1 * 15) by (split; [apply Rmult_le_pos | apply Rmult_le_compat]; lra).
  assert (N3 : near (fl (a * w)) ((r - 1) * w) 62).
  { pose proof (near_rounded (a * w) ((r - 1) * w) _ (151 / 10) N2) as N; unfold near in *; lra. }
  set (b := fl (a * w)) in *.
  assert (N4 : near (rh * uh) (r * u) (201 / 100 * (101 / 100) + 2 * (21 / 10))).
  { apply near_product; try easy; unfold near in *; lra. }
  assert (B4 : 0 <= r * u <= 2 * 1) by (split; [apply Rmult_le_pos | apply Rmult_le_compat]; lra).
  assert (N5 : near (fl (rh * uh)) (r * u) 9).
  { pose proof (near_rounded (rh * uh) (r * u) _ (201 / 100) N4) as N; unfold near in *; lra. }
  set (c := fl (rh * uh)) in *.
  assert (N6 : near (fl (b + c)) ((r - 1) * w + r * u) 90).
  { pose proof (near_rounded (b + c) ((r - 1) * w + r * u) 71 (171 / 10)) as N; unfold near in *; lra. }
  unfold near in N6; apply Rabs_def1; unfold eta in *; lra.
Qed.
End Errors.

(* -- acceptance ------------------------------------------------------------------------------------------ *)

Definition margin : R := / 2 ^ MARGIN_BITS.
Definition coin_range : R := 2 ^ WORD_BITS.

Lemma exp_near x xh : Rabs (xh - x) < / 2 ^ 41 ->
  exp (- x) * (1 - / 2 ^ 41) <= exp (- xh) <= exp (- x) * (1 + / 2 ^ 40 - / 2 ^ 42).
Proof.
  intros H; apply Rabs_def2 in H.
  replace (- xh) with (- x + (x - xh)) by ring; rewrite exp_plus; pose proof (exp_pos (- x)).
  split; apply Rmult_le_compat_l; try lra.
  - pose proof (exp_ineq1_le (x - xh)); lra.
  - (* exp d = 1 / exp (- d) <= 1 / (1 - d) *)
    pose proof (exp_ineq1_le (- (x - xh))) as L; pose proof (exp_pos (- (x - xh))).
    assert (E : exp (x - xh) = / exp (- (x - xh))) by (rewrite exp_Ropp, Rinv_inv; reflexivity).
    rewrite E; apply Rle_trans with (/ (1 - / 2 ^ 41)); [apply Rinv_le_contravar; lra|].
    apply Rmult_le_reg_r with (1 - / 2 ^ 41); [lra|]; rewrite Rinv_l by lra; lra.
Qed.

(* P = 2^32 e^-x and its float. The assumption about exp: relative error below 2^-32. Multiplying by 2^32 is exact. *)
Theorem acceptance_error x xh E : Rabs (xh - x) < / 2 ^ 41 ->
  exp (- xh) * (1 - / 2 ^ 32) <= E <= exp (- xh) * (1 + / 2 ^ 32) ->
  let P := coin_range * exp (- x) in
  P * (1 - (/ 2 ^ 32 + / 2 ^ 40)) <= E * coin_range <= P * (1 + (/ 2 ^ 32 + / 2 ^ 40)).
Proof.
  intros H A P; destruct (exp_near x xh H) as (L & U); pose proof (exp_pos (- x)); pose proof (exp_pos (- xh)).
  unfold P, coin_range, WORD_BITS; set (y := exp (- x)) in *; set (z := exp (- xh)) in *.
  split; nra.
Qed.

(* The product with 1 -+ 2^-30 is rounded once more: a factor 1 + d with |d| <= 2^-52. *)
Theorem accepts_only_what_is_sure c P Ph d : 0 <= P ->
  P * (1 - (/ 2 ^ 32 + / 2 ^ 40)) <= Ph <= P * (1 + (/ 2 ^ 32 + / 2 ^ 40)) -> Rabs d <= / 2 ^ 52 ->
  c + 1 <= Ph * (1 - margin) * (1 + d) -> c + 1 <= P.
Proof.
  intros HP B D H; apply Rabs_le_inv in D; unfold margin, MARGIN_BITS in H.
  eapply Rle_trans; [exact H|].
  apply Rle_trans with (P * (1 + (/ 2 ^ 32 + / 2 ^ 40)) * (1 - / 2 ^ 30) * (1 + / 2 ^ 52)).
  - apply Rmult_le_compat; lra.
  - rewrite !Rmult_assoc; rewrite <- (Rmult_1_r P) at 2; apply Rmult_le_compat_l; lra.
Qed.

Theorem rejects_only_what_is_sure c P Ph d : 0 <= P ->
  P * (1 - (/ 2 ^ 32 + / 2 ^ 40)) <= Ph <= P * (1 + (/ 2 ^ 32 + / 2 ^ 40)) -> Rabs d <= / 2 ^ 52 ->
  Ph * (1 + margin) * (1 + d) <= c -> P <= c.
Proof.
  intros HP B D H; apply Rabs_le_inv in D; unfold margin, MARGIN_BITS in H.
  eapply Rle_trans; [|exact H].
  apply Rle_trans with (P * (1 - (/ 2 ^ 32 + / 2 ^ 40)) * (1 + / 2 ^ 30) * (1 - / 2 ^ 52)).
  - rewrite !Rmult_assoc; rewrite <- (Rmult_1_r P) at 1; apply Rmult_le_compat_l; lra.
  - apply Rmult_le_compat; lra.
Qed.

(* The thresholds of V: T = floor(2^32 p) for p = e^-j, and w the first 32 bits of W. *)
Theorem threshold_decides W p w T : IZR w <= W * coin_range < IZR w + 1 ->
  IZR T <= p * coin_range < IZR T + 1 ->
  ((w < T)%Z -> W < p) /\ ((T < w)%Z -> p < W).
Proof.
  intros HW HT; unfold coin_range in *; assert (0 < 2 ^ WORD_BITS) by (apply pow_lt; lra).
  split; intros L; apply Zlt_le_succ, IZR_le in L; unfold Z.succ in L; rewrite plus_IZR in L;
    apply Rmult_lt_reg_r with (2 ^ WORD_BITS); lra.
Qed.

(* Rounding of bounds to floats (docs/proofs/sensitivity.md, "Rounding"). `float_up` returns the smallest float that
   is at least a fraction. `root_up` returns the smallest float whose square is at least a number: it starts at
   or below the root and goes up one float at a time.

   Floats are those of IEEE-754 double precision, without an upper limit of the exponent: the package limits
   sizes to 1e30.

   Relied on by: `float_up`, `float_down` and `root_up` of src/dpem/privacy/_rounding.py. *)
From Coq Require Import Reals ZArith Lia Lra.
From Flocq Require Import Core.
Open Scope R_scope.

Definition double := FLT_exp (-1074) 53.
Definition float (x : R) : Prop := generic_format radix2 double x.
Definition next_up (x : R) : R := succ radix2 double x.   (* math.nextafter(x, inf) *)
Definition nearest (x : R) : R := round radix2 double ZnearestE x.   (* float(x): round to nearest *)

Global Instance double_valid : Valid_exp double. Proof. apply FLT_exp_valid; reflexivity. Qed.

(* -- float_up ----------------------------------------------------------------------------------------- *)

Definition float_up (x : R) : R := if Rle_dec x (nearest x) then nearest x else next_up (nearest x).

Theorem float_up_smallest x :
  float (float_up x) /\ x <= float_up x /\ forall f, float f -> x <= f -> float_up x <= f.
Proof.
  assert (F : float (nearest x)) by (apply generic_format_round; [apply double_valid | apply valid_rnd_N]).
  unfold float_up; destruct (Rle_dec x (nearest x)) as [H|H].
  - split; [easy|]; split; [easy|]; intros f Ff L.
    apply round_le_generic; [apply double_valid | apply valid_rnd_N | easy | easy].
  - (* The nearest float is below x; no float lies between it and x, since the one above is at least x. *)
    assert (L : nearest x < x) by lra.
    split; [apply generic_format_succ; [apply double_valid | easy]|].
    assert (U : x <= next_up (nearest x)).
    { apply Rnot_lt_le; intros C.
      (* The next float would also be below x, and nearer. *)
      assert (nearest (next_up (nearest x)) <= nearest x) as Q
        by (apply round_le; [apply double_valid | apply valid_rnd_N | lra]).
      unfold nearest at 1 in Q; rewrite round_generic in Q;
        [| apply valid_rnd_N | apply generic_format_succ; [apply double_valid | easy]].
      destruct (Req_dec (nearest x) 0) as [Z|Z].
      - rewrite Z in *; unfold next_up in Q; rewrite succ_0 in Q.
        assert (0 < ulp radix2 double 0); [|lra].
        assert (Prec_gt_0 53) by reflexivity.
        unfold double; rewrite ulp_FLT_0; [apply bpow_gt_0 | easy].
      - pose proof (succ_gt_id radix2 double (nearest x) Z); unfold next_up in Q; lra. }
    split; [easy|]; intros f Ff G.
    apply succ_le_lt; try apply double_valid; try easy; lra.
Qed.

(* -- root_up ------------------------------------------------------------------------------------------ *)

(* `while r^2 < x: r = nextafter(r, inf)`, for as many steps as it takes. *)
Inductive climbs (x : R) : R -> R -> Prop :=
| stop r : x <= r * r -> climbs x r r
| step r r' : r * r < x -> climbs x (next_up r) r' -> climbs x r r'.

Lemma climbs_smallest x r r' : climbs x r r' -> float r -> 0 <= r ->
  (forall f, float f -> 0 <= f -> x <= f * f -> r <= f) ->
  float r' /\ 0 <= r' /\ x <= r' * r' /\ forall f, float f -> 0 <= f -> x <= f * f -> r' <= f.
Proof.
  induction 1 as [r H|r r' H C IH]; intros F P L; [easy|].
  assert (S : r <= next_up r) by apply succ_ge_id.
  apply IH; [apply generic_format_succ; [apply double_valid | easy] | lra |].
  intros f Ff Pf Hf; specialize (L f Ff Pf Hf).
  apply succ_le_lt; try apply double_valid; try easy.
  destruct L as [L|<-]; [easy | lra].
Qed.

(* The loop starts at a float that is not negative and at most the root: then its result is the smallest float
   whose square is at least x, in particular at least the root of x. *)
Theorem root_up_smallest x start r : 0 <= x -> float start -> 0 <= start <= sqrt x -> climbs x start r ->
  float r /\ sqrt x <= r /\ x <= r * r /\ forall f, float f -> 0 <= f -> x <= f * f -> r <= f.
Proof.
  intros X F (P & L) C.
  assert (B : forall f, 0 <= f -> x <= f * f -> sqrt x <= f).
  { intros f Pf H; rewrite <- (sqrt_square f) by easy; now apply sqrt_le_1_alt. }
  destruct (climbs_smallest x start r C F P) as (A & D & E & G).
  - intros f Ff Pf H; specialize (B f Pf H); lra.
  - repeat split; auto.
Qed.

(* The start of the code, the largest float at most isqrt(n 4^s / d) / 2^s, is at most the root of n / d. *)
Theorem root_up_start n d s : (0 <= n)%Z -> (0 < d)%Z -> (0 <= s)%Z ->
  IZR (Z.sqrt (n * 2 ^ (2 * s) / d)) / IZR (2 ^ s) <= sqrt (IZR n / IZR d).
Proof.
  intros N D S.
  assert (P : (0 < 2 ^ s)%Z) by (apply Z.pow_pos_nonneg; lia).
  set (q := (n * 2 ^ (2 * s) / d)%Z); assert (Q : (0 <= q)%Z).
  { apply Z.div_pos; [apply Z.mul_nonneg_nonneg; [easy | apply Z.pow_nonneg; lia] | easy]. }
  set (i := Z.sqrt q); assert (I : (0 <= i)%Z) by apply Z.sqrt_nonneg.
  assert (J : (i * i <= q)%Z) by (apply Z.sqrt_spec; easy).
  assert (K : (d * q <= n * 2 ^ (2 * s))%Z) by (apply Z.mul_div_le; easy).
  replace (2 ^ (2 * s))%Z with (2 ^ s * 2 ^ s)%Z in K by (rewrite <- Z.pow_add_r by lia; f_equal; lia).
  assert (M : (d * (i * i) <= n * (2 ^ s * 2 ^ s))%Z) by nia.
  apply IZR_le in M; rewrite !mult_IZR in M; apply IZR_lt in P, D; apply IZR_le in I.
  set (p := IZR (2 ^ s)) in *.
  rewrite <- (sqrt_square (IZR i / p)) by (apply Rmult_le_pos; [easy | left; now apply Rinv_0_lt_compat]).
  apply sqrt_le_1_alt; apply Rmult_le_reg_r with (p * p); [now apply Rmult_lt_0_compat|].
  replace (IZR i / p * (IZR i / p) * (p * p)) with (IZR i * IZR i) by (field; lra).
  apply Rmult_le_reg_l with (IZR d); [easy|].
  replace (IZR d * (IZR n / IZR d * (p * p))) with (IZR n * (p * p)) by (field; lra); lra.
Qed.

(* (S-10) Low bits dropped. Sums are released as floor(S / 2^b). If an entry moves by x, its released value moves by
   less than |x| / 2^b + 1. So the norm of the move is at most Delta / 2^b plus the norm of a vector of ones, each
   divided by its relative noise. Clipping each entry afterwards moves no two values further apart.

   Relied on by: `coarse` of src/dpem/privacy/sensitivity.py, `IntegerTotal.value` of src/dpem/engines/totals.py,
   `_clipped` of src/dpem/privacy/mechanisms.py. *)
From Coq Require Import ZArith.
From DPEM Require Import Tables.

Lemma floor_moves x y m : (0 < m -> Z.abs (x / m - y / m) * m < Z.abs (x - y) + m)%Z.
Proof.
  intros H; pose proof (Z.div_mod x m ltac:(lia)); pose proof (Z.mod_pos_bound x m H).
  pose proof (Z.div_mod y m ltac:(lia)); pose proof (Z.mod_pos_bound y m H); nia.
Qed.

(* An entry moves by less than |x| / 2^b + 1. *)
Theorem S10_entry x y b :
  Rabs (IZR (x / 2 ^ Z.of_nat b) - IZR (y / 2 ^ Z.of_nat b)) < Rabs (IZR x - IZR y) / 2 ^ b + 1.
Proof.
  assert (P : (0 < 2 ^ Z.of_nat b)%Z) by (apply Z.pow_pos_nonneg; lia).
  pose proof (floor_moves x y _ P) as F; apply IZR_lt in F.
  rewrite mult_IZR, plus_IZR, !abs_IZR, !minus_IZR in F.
  replace (IZR (2 ^ Z.of_nat b)) with (2 ^ b) in F by (rewrite <- pow_IZR; reflexivity).
  assert (Q : 0 < 2 ^ b) by (apply pow_lt; lra).
  apply Rmult_lt_reg_r with (2 ^ b); [easy|].
  replace ((Rabs (IZR x - IZR y) / 2 ^ b + 1) * 2 ^ b) with (Rabs (IZR x - IZR y) + 2 ^ b) by (field; lra).
  exact F.
Qed.

Definition clip (limit x : Z) : Z := Z.max (- limit) (Z.min limit x).

Theorem clip_contracts limit x y : (Z.abs (clip limit x - clip limit y) <= Z.abs (x - y))%Z.
Proof. unfold clip; lia. Qed.

(* Integer statistics of rows, and their sum over a table. *)
Fixpoint total_Z {Row I} (s : Row -> I -> Z) (table : list Row) (i : I) : Z :=
  match table with [] => 0%Z | r :: table => (s r i + total_Z s table i)%Z end.

Lemma total_Z_total Row I (s : Row -> I -> Z) table i :
  IZR (total_Z s table i) = total (fun r i => IZR (s r i)) table i.
Proof. induction table as [|r table IH]; cbn; [reflexivity|]; now rewrite plus_IZR, IH. Qed.

(* What is released of an entry: without its low bits, clipped. *)
Definition coarse {Row I} (b : nat) (limit : Z) (s : Row -> I -> Z) (table : list Row) (i : I) : R :=
  IZR (clip limit (total_Z s table i / 2 ^ Z.of_nat b)).

Theorem S10_low_bits Row I (index : list I) (s : Row -> I -> Z) (noise : I -> R) how delta b limit :
  (forall i, 0 < noise i) ->
  sensitivity how (fun r i => IZR (s r i) / noise i) (norm index) delta ->
  forall t t', neighbours how t t' ->
  norm index (fun i => (coarse b limit s t i - coarse b limit s t' i) / noise i)
  <= delta / 2 ^ b + norm index (fun i => 1 / noise i).
Proof.
  intros W S t t' N; specialize (S t t' N); assert (Q : 0 < 2 ^ b) by (apply pow_lt; lra).
  set (x := fun i => IZR (total_Z s t i) - IZR (total_Z s t' i)).
  assert (E : forall i, move (fun r i => IZR (s r i) / noise i) t t' i = x i / noise i).
  { intros i; unfold x, move, total; rewrite !total_Z_total; unfold total, Rdiv.
    assert (forall l, sum l (fun r => IZR (s r i) * / noise i) = / noise i * sum l (fun r => IZR (s r i))) as F
      by (intros; rewrite <- sum_scale; apply sum_eq; intros; ring).
    rewrite !F; ring. }
  rewrite (norm_eq index _ _ E) in S.
  apply Rle_trans with (norm index (fun i => / 2 ^ b * Rabs (x i / noise i) + 1 / noise i)).
  - apply norm_smaller; intros i _; specialize (W i).
    assert (P : 0 < / noise i) by now apply Rinv_0_lt_compat.
    assert (0 < / 2 ^ b) by now apply Rinv_0_lt_compat.
    pose proof (Rabs_pos (x i / noise i)).
    rewrite (Rabs_pos_eq (_ + _)) by (unfold Rdiv; nra).
    unfold Rdiv; rewrite !Rabs_mult, (Rabs_pos_eq (/ noise i)) by lra.
    replace (/ 2 ^ b * (Rabs (x i) * / noise i) + 1 * / noise i)
      with ((Rabs (x i) / 2 ^ b + 1) * / noise i) by (unfold Rdiv; ring).
    apply Rmult_le_compat_r; [lra|].
    pose proof (S10_entry (total_Z s t i) (total_Z s t' i) b) as F; fold (x i) in F.
    eapply Rle_trans; [|left; exact F]; unfold coarse; rewrite <- !minus_IZR, <- !abs_IZR.
    apply IZR_le, clip_contracts.
  - eapply Rle_trans; [apply norm_plus|]; apply Rplus_le_compat_r.
    rewrite norm_scale, Rabs_pos_eq by (left; now apply Rinv_0_lt_compat).
    unfold Rdiv at 2; rewrite Rmult_comm; apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|].
    eapply Rle_trans; [|exact S]; apply norm_smaller; intros; rewrite Rabs_Rabsolu; lra.
Qed.

(* Norm after rounding: rounding n entries to the nearest integers moves a vector by at most sqrt n / 2. So a vector of
   norm at most 2^b (1 - 2^-40) - sqrt n / 2 has norm at most 2^b after rounding, and its check in integers
   succeeds. Privacy does not rest on it, because the check is made for every row.

   Relied on by: `unit_scale` and `onto_unit_grid` of src/dpem/statistics/simple.py. *)
From Coq Require Import ZArith.
From Flocq Require Import Core.
From DPEM Require Import Tables.

Theorem norm_after_rounding {I} (index : list I) (v : I -> R) b :
  norm index v <= 2 ^ b * (1 - / 2 ^ 40) - sqrt (INR (length index)) / 2 ->
  norm index (fun i => IZR (ZnearestE (v i))) <= 2 ^ b.
Proof.
  intros H.
  rewrite (norm_eq index _ (fun i => v i + (IZR (ZnearestE (v i)) - v i))) by (intros; ring).
  eapply Rle_trans; [apply norm_plus|].
  assert (norm index (fun i => IZR (ZnearestE (v i)) - v i) <= sqrt (INR (length index)) / 2) as E.
  { apply norm_le; [apply Rmult_le_pos; [apply sqrt_pos | lra]|].
    replace (sqrt (INR (length index)) / 2 * (sqrt (INR (length index)) / 2))
      with (sqrt (INR (length index)) * sqrt (INR (length index)) * / 4) by field.
    rewrite sqrt_sqrt by apply pos_INR; rewrite <- sum_const; apply sum_le; intros i _.
    pose proof (Znearest_half (fun x => negb (Z.even x)) (v i)) as N.
    apply Rabs_le_inv in N; change (ZnearestE (v i)) with (Znearest (fun x => negb (Z.even x)) (v i)); nra. }
  assert (0 < 2 ^ b) by (apply pow_lt; lra); assert (0 < / 2 ^ 40) by (apply Rinv_0_lt_compat, pow_lt; lra).
  nra.
Qed.

(* Filled, projected and encoded rows lie in the ball of radius 2^b for the same reason, or are set to zero:
   a row that fails the check in integers counts as zero. *)
Theorem norm_after_check {I} (index : list I) (v : I -> R) c : 0 <= c ->
  norm index (fun i => if Rle_dec (dot index v v) (c * c) then v i else 0) <= c.
Proof.
  intros C; apply norm_le; [easy|]; destruct (Rle_dec (dot index v v) (c * c)) as [H|H]; [easy|].
  unfold dot; rewrite sum_zero by (intros; ring); nra.
Qed.

(* Lloyd's sums in L1. A row adds 1 to the count of its cluster and its coordinates to the sum of its cluster. In
   L1 that is 1 + |u|_1: at most 1 + d in the box [-1, 1]^d and 1 + sqrt d in the unit ball. Replacing a row
   doubles it.

   Relied on by: `lloyd_l1` of src/dpem/privacy/sensitivity.py. *)
From DPEM Require Import Tables S01_Counts S02_Sums.

Inductive lloyd_entry := Count (k : nat) | Coordinate (e : nat * nat).

Definition lloyd_index (K d : nat) : list lloyd_entry :=
  map Count (upto K) ++ map Coordinate (sums_index K d).

Definition lloyd {Row} (cluster : Row -> nat) (u : Row -> nat -> R) (r : Row) (e : lloyd_entry) : R :=
  match e with
  | Count k => vertex (cluster r) k
  | Coordinate e => weighted_sums (fun r => vertex (cluster r)) u r e
  end.

Lemma lloyd_row Row (cluster : Row -> nat) (u : Row -> nat -> R) K d r :
  norm_l1 (lloyd_index K d) (lloyd cluster u r) <= 1 + norm_l1 (upto d) (u r).
Proof.
  assert (V : forall k, Rabs (vertex (cluster r) k) = vertex (cluster r) k)
    by (intros k; apply Rabs_pos_eq; destruct (vertex_cases (cluster r) k); lra).
  unfold norm_l1, lloyd_index; rewrite sum_app, !sum_map; cbn [lloyd].
  rewrite (sum_eq _ _ (vertex (cluster r))) by apply V.
  assert (sum (sums_index K d) (fun e => Rabs (weighted_sums (fun r => vertex (cluster r)) u r e))
          = sum (upto K) (vertex (cluster r)) * sum (upto d) (fun j => Rabs (u r j))) as ->.
  { unfold sums_index; rewrite sum_list_prod, sum_product; apply sum_eq; intros k; apply sum_eq; intros j.
    unfold weighted_sums; cbn [fst snd]; rewrite Rabs_mult, V; ring. }
  destruct (vertex_responsibilities K (cluster r)) as (P & S).
  assert (0 <= sum (upto d) (fun j => Rabs (u r j))) by (apply sum_nonneg; intros; apply Rabs_pos).
  assert (0 <= sum (upto K) (vertex (cluster r))) by (apply sum_nonneg; auto); nra.
Qed.

Theorem Lloyd_box Row (cluster : Row -> nat) (u : Row -> nat -> R) K d : (forall r j, -1 <= u r j <= 1) ->
  sensitivity AddRemove (lloyd cluster u) (norm_l1 (lloyd_index K d)) (1 + INR d) /\
  sensitivity ReplaceOne (lloyd cluster u) (norm_l1 (lloyd_index K d)) (2 * (1 + INR d)).
Proof.
  intros U; apply triangle; [apply norm_l1_seminorm|]; intros r.
  eapply Rle_trans; [apply lloyd_row|].
  apply Rplus_le_compat_l; replace (INR d) with (sum (upto d) (fun _ => 1))
    by (rewrite sum_const; unfold upto; rewrite seq_length; ring).
  apply sum_le; intros j _; apply Rabs_le; apply U.
Qed.

Theorem Lloyd_ball Row (cluster : Row -> nat) (u : Row -> nat -> R) K d :
  (forall r, norm (upto d) (u r) <= 1) ->
  sensitivity AddRemove (lloyd cluster u) (norm_l1 (lloyd_index K d)) (1 + sqrt (INR d)) /\
  sensitivity ReplaceOne (lloyd cluster u) (norm_l1 (lloyd_index K d)) (2 * (1 + sqrt (INR d))).
Proof.
  intros U; apply triangle; [apply norm_l1_seminorm|]; intros r.
  eapply Rle_trans; [apply lloyd_row|].
  pose proof (norm_l1_le (upto d) (u r)) as L; unfold upto at 2 in L; rewrite seq_length in L.
  pose proof (sqrt_pos (INR d)); pose proof (U r); nra.
Qed.

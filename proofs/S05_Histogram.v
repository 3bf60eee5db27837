(* (S-5) Histogram. A row falls into at most one cell: its vector is a vertex of the simplex, or zero. So (S-1)
   holds: the sensitivity is 1, and sqrt 2 if a row is replaced; in L1, 1 and 2.

   Relied on by: `histogram` of src/dpem/privacy/sensitivity.py; DistanceHistogram, BoxHistogram and CountedRows
   of src/dpem/statistics/simple.py. *)
From DPEM Require Import Tables S01_Counts.

Definition histogram {Row} (cell : Row -> option nat) (r : Row) (k : nat) : R :=
  match cell r with Some j => vertex j k | None => 0 end.

Lemma histogram_responsibilities Row (cell : Row -> option nat) n r : responsibilities n (histogram cell r).
Proof.
  unfold histogram; destruct (cell r) as [j|]; [apply vertex_responsibilities|].
  split; [intros; lra|]; rewrite sum_zero by auto; lra.
Qed.

Theorem S5_histogram Row (cell : Row -> option nat) n :
  sensitivity AddRemove (histogram cell) (norm (upto n)) 1 /\
  sensitivity ReplaceOne (histogram cell) (norm (upto n)) (sqrt 2) /\
  sensitivity AddRemove (histogram cell) (norm_l1 (upto n)) 1 /\
  sensitivity ReplaceOne (histogram cell) (norm_l1 (upto n)) 2.
Proof.
  destruct (S1_counts Row (histogram cell) n) as (A & B); [apply histogram_responsibilities|].
  destruct (S1_counts_l1 Row (histogram cell) n) as (C & D); [apply histogram_responsibilities|]; auto.
Qed.

(* Two rows in different cells reach the bounds. *)
Theorem S5_reached : forall n, (2 <= n)%nat ->
  reached AddRemove (histogram (@Some nat)) (norm (upto n)) 1 /\
  reached ReplaceOne (histogram (@Some nat)) (norm (upto n)) (sqrt 2) /\
  reached AddRemove (histogram (@Some nat)) (norm_l1 (upto n)) 1 /\
  reached ReplaceOne (histogram (@Some nat)) (norm_l1 (upto n)) 2.
Proof. apply S1_reached. Qed.

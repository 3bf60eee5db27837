(* (S-12) Contingency tables. There are m tables: histograms of single columns, or tables of pairs of columns,
   perhaps split by a further column. The row adds 1 to one entry of each table: a vector of m ones. The
   sensitivity is sqrt m, and sqrt (2 m) if a row is replaced, however large the tables are. Two rows that
   share no entry reach it. The counts of data quality are such tables.

   Relied on by: `histograms` of src/dpem/privacy/sensitivity.py; Histograms and PairTables of
   src/dpem/statistics/contingency.py; src/dpem/estimator/data_quality.py. *)
From DPEM Require Import Tables S01_Counts.

(* Entry (t, e): entry e of table t, which has `size t` entries. *)
Definition tables_index (m : nat) (size : nat -> nat) : list (nat * nat) :=
  flat_map (fun t => map (fun e => (t, e)) (upto (size t))) (upto m).

(* `place r t` is the one entry of table t to which the row adds. *)
Definition tables {Row} (place : Row -> nat -> nat) (r : Row) (e : nat * nat) : R :=
  vertex (place r (fst e)) (snd e).

Lemma tables_square Row (place : Row -> nat -> nat) m size r : (forall t, place r t < size t)%nat ->
  dot (tables_index m size) (tables place r) (tables place r) = INR m.
Proof.
  intros P; unfold dot, tables_index; rewrite sum_flat_map.
  rewrite (sum_eq _ _ (fun _ => 1)).
  - rewrite sum_const; unfold upto; rewrite seq_length; ring.
  - intros t; rewrite sum_map; unfold tables; cbn [fst snd].
    rewrite (sum_eq _ _ (vertex (place r t))).
    + rewrite sum_vertex; specialize (P t); destruct (Nat.ltb_spec (place r t) (size t)); lia || lra.
    + intros e; destruct (vertex_cases (place r t) e) as [-> | ->]; ring.
Qed.

Theorem S12_contingency_tables Row (place : Row -> nat -> nat) m size :
  (forall r t, place r t < size t)%nat ->
  sensitivity AddRemove (tables place) (norm (tables_index m size)) (sqrt (INR m)) /\
  sensitivity ReplaceOne (tables place) (norm (tables_index m size)) (sqrt (2 * INR m)).
Proof.
  intros P; rewrite sqrt_mult_alt by lra; apply cone_of_nonnegative; [apply sqrt_pos | |].
  - intros r; unfold norm; rewrite tables_square by auto; lra.
  - intros r (t, e); unfold tables; cbn; destruct (vertex_cases (place r t) e); lra.
Qed.

(* A row in entry 0 of every table, and one in entry 1. *)
Theorem S12_reached m size : (forall t, 2 <= size t)%nat ->
  let place (r : bool) (t : nat) := if r then 1%nat else 0%nat in
  reached AddRemove (tables place) (norm (tables_index m size)) (sqrt (INR m)) /\
  reached ReplaceOne (tables place) (norm (tables_index m size)) (sqrt (2 * INR m)).
Proof.
  intros H place.
  assert (Q : forall r, dot (tables_index m size) (tables place r) (tables place r) = INR m)
    by (intros r; apply tables_square; intros t; specialize (H t); unfold place; destruct r; lia).
  split.
  - exists [true], []; split; [now apply row_removed with true []|].
    unfold norm; f_equal; rewrite <- (Q true); apply sum_eq; intros; unfold move, total; cbn; ring.
  - exists [true], [false]; split; [now apply row_replaced with true false []|].
    unfold norm; f_equal.
    replace (2 * INR m) with (INR m + INR m - 2 * 0) by ring; rewrite <- (Q true) at 1; rewrite <- (Q false).
    replace 0 with (dot (tables_index m size) (tables place true) (tables place false)).
    + rewrite <- dot_minus; apply sum_eq; intros; unfold move, total; cbn; ring.
    + apply sum_zero; intros (t, e) _; unfold tables, place, vertex; cbn; destruct e as [|[|e]]; cbn; ring.
Qed.

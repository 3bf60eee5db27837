(* (S-1) Counts. The row adds its responsibilities g. The sensitivity is 1, and sqrt 2 if a row is replaced.
   In L1 it is 1 and 2. Two rows at two different vertices of the simplex reach the bounds.

   Relied on by: `counts` of src/dpem/privacy/sensitivity.py, src/dpem/paper/cluster_sums.py. *)
From DPEM Require Import Tables.

Theorem S1_counts Row (g : Row -> nat -> R) K : (forall r, responsibilities K (g r)) ->
  sensitivity AddRemove g (norm (upto K)) 1 /\ sensitivity ReplaceOne g (norm (upto K)) (sqrt 2).
Proof.
  intros G; replace (sqrt 2) with (sqrt 2 * 1) by ring.
  apply cone_of_nonnegative; [lra | | apply G].
  intros r; apply norm_le; [lra|]; pose proof (responsibilities_norm K _ (G r)); lra.
Qed.

Theorem S1_counts_l1 Row (g : Row -> nat -> R) K : (forall r, responsibilities K (g r)) ->
  sensitivity AddRemove g (norm_l1 (upto K)) 1 /\ sensitivity ReplaceOne g (norm_l1 (upto K)) 2.
Proof.
  intros G; replace 2 with (2 * 1) by ring; apply triangle; [apply norm_l1_seminorm|].
  intros r; unfold norm_l1; rewrite (sum_eq _ _ (g r)); [apply G|].
  intros k; apply Rabs_pos_eq, G.
Qed.

(* Rows at the vertices of the simplex: the row k has g = e_k. *)
Definition vertex (r k : nat) : R := if Nat.eqb r k then 1 else 0.

Lemma vertex_cases r k : vertex r k = 0 \/ vertex r k = 1.
Proof. unfold vertex; destruct (Nat.eqb r k); auto. Qed.

Lemma sum_vertex K r : sum (upto K) (vertex r) = if Nat.ltb r K then 1 else 0.
Proof.
  unfold upto; induction K as [|K IH]; [reflexivity|].
  rewrite seq_S, sum_app, IH, Nat.add_0_l; unfold sum at 1; unfold vertex.
  destruct (Nat.eqb_spec r K); destruct (Nat.ltb_spec r K); destruct (Nat.ltb_spec r (S K)); lia || lra.
Qed.

Lemma vertex_responsibilities K r : responsibilities K (vertex r).
Proof.
  split; [intros k; destruct (vertex_cases r k); lra|].
  rewrite sum_vertex; destruct (Nat.ltb r K); lra.
Qed.

Lemma vertex_dot K r r' : (r < K)%nat -> dot (upto K) (vertex r) (vertex r') = vertex r r'.
Proof.
  intros L; unfold dot; rewrite (sum_eq _ _ (fun k => vertex r r' * vertex r k)).
  - rewrite sum_scale, sum_vertex; destruct (Nat.ltb_spec r K); [ring | lia].
  - intros k; unfold vertex; destruct (Nat.eqb_spec r k); destruct (Nat.eqb_spec r' k); destruct (Nat.eqb_spec r r');
      subst; try ring; congruence.
Qed.

Theorem S1_reached : forall K, (2 <= K)%nat ->
  reached AddRemove vertex (norm (upto K)) 1 /\ reached ReplaceOne vertex (norm (upto K)) (sqrt 2) /\
  reached AddRemove vertex (norm_l1 (upto K)) 1 /\ reached ReplaceOne vertex (norm_l1 (upto K)) 2.
Proof.
  intros K H.
  assert (A : neighbours AddRemove [0%nat] []) by now apply row_removed with 0%nat [].
  assert (B : neighbours ReplaceOne [0%nat] [1%nat]) by now apply row_replaced with 0%nat 1%nat [].
  assert (S0 : sum (upto K) (vertex 0) = 1) by (rewrite sum_vertex; now destruct (Nat.ltb_spec 0 K); lia || lra).
  assert (S1 : sum (upto K) (vertex 1) = 1) by (rewrite sum_vertex; now destruct (Nat.ltb_spec 1 K); lia || lra).
  assert (D : forall k, vertex 0 k * vertex 1 k = 0) by (intros [|[|k]]; unfold vertex; cbn; ring).
  repeat split.
  - exists [0%nat], []; split; [easy|]; unfold norm, dot.
    rewrite (sum_eq _ _ (vertex 0)); [rewrite S0; apply sqrt_1|].
    intros k; unfold move, total; cbn; destruct (vertex_cases 0 k) as [->| ->]; ring.
  - exists [0%nat], [1%nat]; split; [easy|]; unfold norm, dot; f_equal.
    rewrite (sum_eq _ _ (fun k => vertex 0 k + vertex 1 k)); [rewrite sum_plus; lra|].
    intros k; unfold move, total; cbn; pose proof (D k).
    destruct (vertex_cases 0 k) as [E|E]; destruct (vertex_cases 1 k) as [E'|E']; rewrite E, E' in *; lra.
  - exists [0%nat], []; split; [easy|]; unfold norm_l1.
    rewrite (sum_eq _ _ (vertex 0)); [easy|]; intros k; unfold move, total; cbn.
    destruct (vertex_cases 0 k) as [->| ->]; rewrite Rabs_pos_eq; lra.
  - exists [0%nat], [1%nat]; split; [easy|]; unfold norm_l1.
    rewrite (sum_eq _ _ (fun k => vertex 0 k + vertex 1 k)); [rewrite sum_plus; lra|].
    intros k; unfold move, total; cbn; pose proof (D k).
    destruct (vertex_cases 0 k) as [E|E]; destruct (vertex_cases 1 k) as [E'|E']; rewrite E, E' in *;
      try lra; unfold Rabs; destruct Rcase_abs; lra.
Qed.

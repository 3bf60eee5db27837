(* (S-3) Second moments. The row adds (g_k uu')_k with |u| <= R. The sensitivity in the Frobenius norm is R^2,
   and sqrt 2 R^2 if a row is replaced. The release holds the upper triangle, with noise smaller by sqrt 2
   (rounded up) off the diagonal; relative to the noise, its sensitivity is the same.

   Relied on by: `second_moments` of src/dpem/privacy/sensitivity.py, `SecondMoments` of
   src/dpem/statistics/simple.py (one component). *)
From DPEM Require Import Tables S01_Counts S02_Sums Matrices.

(* Entry (k, (i, j)): the entry (i, j) of the matrix of component k. *)
Definition moments_index (K d : nat) : list (nat * entry) := list_prod (upto K) (square d).
Definition released_index (K d : nat) : list (nat * entry) := list_prod (upto K) (upper d).

Definition second_moments {Row} (g u : Row -> nat -> R) (r : Row) (e : nat * entry) : R :=
  g r (fst e) * outer (u r) (snd e).

Lemma moments_dot Row (g u : Row -> nat -> R) K d r r' :
  dot (moments_index K d) (second_moments g u r) (second_moments g u r')
  = dot (upto K) (g r) (g r') * (dot (upto d) (u r) (u r') * dot (upto d) (u r) (u r')).
Proof.
  rewrite <- outer_dot; unfold dot at 1, moments_index, second_moments; rewrite sum_list_prod.
  unfold dot; rewrite sum_product; apply sum_eq; intros k; apply sum_eq; intros e; cbn; ring.
Qed.

Theorem S3_second_moments Row (g u : Row -> nat -> R) K d radius : (forall r, responsibilities K (g r)) ->
  0 <= radius -> (forall r, norm (upto d) (u r) <= radius) ->
  sensitivity AddRemove (second_moments g u) (norm (moments_index K d)) (radius * radius) /\
  sensitivity ReplaceOne (second_moments g u) (norm (moments_index K d)) (sqrt 2 * (radius * radius)).
Proof.
  intros G P U; apply cone; [nra | |].
  - intros r; apply norm_le; [nra|]; rewrite moments_dot.
    pose proof (responsibilities_norm K _ (G r)); pose proof (dot_le _ _ _ (U r)).
    pose proof (dot_self (upto K) (g r)); pose proof (dot_self (upto d) (u r)) as D.
    set (n := dot (upto d) (u r) (u r)) in *.
    assert (n * n <= radius * radius * (radius * radius)) by (apply Rmult_le_compat; easy).
    assert (0 <= n * n) by nra; nra.
  - intros r r'; rewrite moments_dot; destruct (responsibilities_dot K _ _ (G r) (G r')).
    apply Rmult_le_pos; [easy | apply Rle_0_sqr].
Qed.

Theorem S3_released Row (g u : Row -> nat -> R) K d radius w : (forall r, responsibilities K (g r)) ->
  0 <= radius -> (forall r, norm (upto d) (u r) <= radius) -> 0 < w -> 1 / 2 <= w * w ->
  let relative r e := second_moments g u r e / beside w (snd e) in
  sensitivity AddRemove relative (norm (released_index K d)) (radius * radius) /\
  sensitivity ReplaceOne relative (norm (released_index K d)) (sqrt 2 * (radius * radius)).
Proof.
  intros G P U W H relative.
  destruct (S3_second_moments Row g u K d radius G P U) as (A & B).
  assert (M : forall t t', norm (released_index K d) (move relative t t')
                           <= norm (moments_index K d) (move (second_moments g u) t t')).
  { intros t t'; apply sqrt_le_1_alt; unfold dot, released_index, moments_index; rewrite !sum_list_prod.
    apply sum_le; intros k _.
    set (x := fun e => move (second_moments g u) t t' (k, e)).
    rewrite (sum_eq (upper d) _ (fun e => x e / beside w e * (x e / beside w e))).
    - apply (upper_norm d w x W H); intros i j; unfold x, move, total, second_moments, outer; cbn.
      f_equal; apply sum_eq; intros; ring.
    - intros e; unfold x, move, total, relative, Rdiv; cbn.
      assert (forall t, sum t (fun r => second_moments g u r (k, e) * / beside w e)
                        = / beside w e * sum t (fun r => second_moments g u r (k, e))) as E.
      { intros l; rewrite <- sum_scale; apply sum_eq; intros; ring. }
      rewrite !E; ring. }
  split; eapply sensitivity_of_smaller; eauto.
Qed.

(* Disjoint responsibilities: the row r has g = e_r and u = (R, 0, ...). *)
Theorem S3_reached : forall K radius, (2 <= K)%nat -> 0 <= radius ->
  let s := second_moments vertex (fun _ _ => radius) in
  reached AddRemove s (norm (moments_index K 1)) (radius * radius) /\
  reached ReplaceOne s (norm (moments_index K 1)) (sqrt 2 * (radius * radius)).
Proof.
  intros K radius H P s; apply (reached_by_rows _ s 0%nat 1%nat); [nra | | |];
    unfold s; rewrite moments_dot, vertex_dot by lia; unfold dot, vertex; cbn; ring.
Qed.

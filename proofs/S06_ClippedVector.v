(* (S-6) Clipped vector. Any vector is clipped to norm C. The sensitivity is C, and 2 C if a row is replaced, in
   every norm. In a cone, where <v, v'> >= 0 for every two rows, and with the Euclidean norm, it is sqrt 2 C
   if a row is replaced. For example, if negative entries are cut to zero before clipping.

   Relied on by: `clipped_vector` of src/dpem/privacy/sensitivity.py, `ClippedStatistic` of
   src/dpem/plugin/clipped.py, src/dpem/paper/general_em.py. *)
From DPEM Require Import Tables.

(* What every clipping of the package does: divide by max(|v|, C) and multiply by C. *)
Definition clip {I} (size : (I -> R) -> R) (C : R) (v : I -> R) (i : I) : R := C / Rmax (size v) C * v i.

Lemma clip_norm {I} (index : list I) C v : 0 < C -> norm index (clip (norm index) C v) <= C.
Proof.
  intros P; unfold clip; rewrite norm_scale.
  pose proof (norm_nonneg index v) as N; pose proof (Rmax_l (norm index v) C); pose proof (Rmax_r (norm index v) C).
  set (top := Rmax (norm index v) C) in *.
  rewrite Rabs_pos_eq by (apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]).
  apply Rmult_le_reg_r with top; [lra|].
  replace (C / top * norm index v * top) with (C * norm index v) by (field; lra).
  apply Rmult_le_compat_l; lra.
Qed.

Lemma clip_norm_l1 {I} (index : list I) C v : 0 < C -> norm_l1 index (clip (norm_l1 index) C v) <= C.
Proof.
  intros P; unfold clip.
  assert (N : 0 <= norm_l1 index v) by (apply sum_nonneg; intros; apply Rabs_pos).
  pose proof (Rmax_l (norm_l1 index v) C); pose proof (Rmax_r (norm_l1 index v) C).
  set (top := Rmax (norm_l1 index v) C) in *.
  assert (F : 0 <= C / top) by (apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]).
  assert (norm_l1 index (fun i => C / top * v i) = C / top * norm_l1 index v) as ->.
  { unfold norm_l1; rewrite <- sum_scale; apply sum_eq; intros; rewrite Rabs_mult, Rabs_pos_eq; easy. }
  apply Rmult_le_reg_r with top; [lra|].
  replace (C / top * norm_l1 index v * top) with (C * norm_l1 index v) by (field; lra).
  apply Rmult_le_compat_l; lra.
Qed.

(* Every norm, every vector: the clipping of the previous lemmas, or any other. *)
Theorem S6_clipped_vector Row I (v : Row -> I -> R) size C : seminorm size -> (forall r, size (v r) <= C) ->
  sensitivity AddRemove v size C /\ sensitivity ReplaceOne v size (2 * C).
Proof. apply triangle. Qed.

Theorem S6_in_a_cone Row I (index : list I) (v : Row -> I -> R) C : 0 <= C ->
  (forall r, norm index (v r) <= C) -> (forall r r', 0 <= dot index (v r) (v r')) ->
  sensitivity AddRemove v (norm index) C /\ sensitivity ReplaceOne v (norm index) (sqrt 2 * C).
Proof. apply cone. Qed.

Theorem S6_any_vector Row I (index : list I) (v : Row -> I -> R) C : 0 < C ->
  let clipped r := clip (norm index) C (v r) in
  let clipped_l1 r := clip (norm_l1 index) C (v r) in
  sensitivity AddRemove clipped (norm index) C /\ sensitivity ReplaceOne clipped (norm index) (2 * C) /\
  sensitivity AddRemove clipped_l1 (norm_l1 index) C /\
  sensitivity ReplaceOne clipped_l1 (norm_l1 index) (2 * C).
Proof.
  intros P clipped clipped_l1.
  destruct (triangle clipped (norm index) C) as (A & B);
    [apply norm_seminorm | intros; now apply clip_norm |].
  destruct (triangle clipped_l1 (norm_l1 index) C) as (A' & B');
    [apply norm_l1_seminorm | intros; now apply clip_norm_l1 |]; auto.
Qed.

(* Plug-in models that certify no negative entries: negative entries are cut to zero first. *)
Theorem S6_nonnegative Row I (index : list I) (v : Row -> I -> R) C : 0 < C ->
  let clipped r := clip (norm index) C (fun i => Rmax (v r i) 0) in
  sensitivity AddRemove clipped (norm index) C /\ sensitivity ReplaceOne clipped (norm index) (sqrt 2 * C).
Proof.
  intros P clipped; apply cone_of_nonnegative; [lra | intros; now apply clip_norm|].
  intros r i; unfold clipped, clip; apply Rmult_le_pos; [|apply Rmax_r].
  apply Rmult_le_pos; [lra|]; left; apply Rinv_0_lt_compat.
  eapply Rlt_le_trans; [exact P | apply Rmax_r].
Qed.

(* v' = -v reaches 2 C. *)
Theorem S6_reached : forall C, 0 <= C ->
  reached ReplaceOne (fun (r : bool) (_ : unit) => if r then C else - C) (norm [tt]) (2 * C).
Proof.
  intros C P; exists [true], [false]; split; [now apply row_replaced with true false []|].
  unfold norm, dot, move, total; cbn.
  replace (_ + 0) with (2 * C * (2 * C)) by ring; apply sqrt_square; lra.
Qed.

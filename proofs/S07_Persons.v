(* (S-7) Persons. A person with m rows is a chain of m replacements (or additions, or removals). By the triangle
   inequality the sensitivity is m Delta. Moving m equal rows reaches it. The bound covers groups of rows
   that are partly replaced and partly added or removed, too.

   Relied on by: `for_person` of src/dpem/privacy/sensitivity.py. *)
From DPEM Require Import Tables.

(* The rows of one person are replaced by as many others, or added, or removed: at most m in each case. *)
Inductive person_neighbours {Row} (m : nat) : relation -> list Row -> list Row -> Prop :=
| person_removed t t' own rest : Permutation t (own ++ rest) -> Permutation t' rest ->
    (length own <= m)%nat -> person_neighbours m AddRemove t t'
| person_added t t' own rest : Permutation t rest -> Permutation t' (own ++ rest) ->
    (length own <= m)%nat -> person_neighbours m AddRemove t t'
| person_replaced t t' own own' rest : Permutation t (own ++ rest) -> Permutation t' (own' ++ rest) ->
    (length own <= m)%nat -> length own = length own' -> person_neighbours m ReplaceOne t t'.

Definition person_sensitivity {Row I} (m : nat) (how : relation) (s : Row -> I -> R) (size : (I -> R) -> R)
  (delta : R) : Prop :=
  forall t t', person_neighbours m how t t' -> size (move s t t') <= delta.

Lemma move_chain {Row I} (s : Row -> I -> R) size t t' t'' : seminorm size ->
  size (move s t t'') <= size (move s t t') + size (move s t' t'').
Proof.
  intros (E & _ & O & T).
  rewrite (E (move s t t'') (fun i => move s t t' i - (fun i => - move s t' t'' i) i))
    by (intros; unfold move; ring).
  eapply Rle_trans; [apply T|]; rewrite (O (move s t' t'')); lra.
Qed.

Lemma move_nothing {Row I} (s : Row -> I -> R) size t t' : seminorm size -> Permutation t t' ->
  size (move s t t') = 0.
Proof.
  intros (E & Z & _) P; rewrite <- Z; apply E; intros i; unfold move.
  rewrite (total_permutation s t t' i P); ring.
Qed.

Lemma move_back {Row I} (s : Row -> I -> R) size t t' : seminorm size -> size (move s t t') = size (move s t' t).
Proof.
  intros (E & _ & O & _); rewrite <- (O (move s t' t)); apply E; intros; unfold move; ring.
Qed.

Lemma removed_chain {Row I} (s : Row -> I -> R) size delta own : seminorm size ->
  sensitivity AddRemove s size delta ->
  forall t rest, Permutation t (own ++ rest) -> size (move s t rest) <= INR (length own) * delta.
Proof.
  intros N S; induction own as [|r own IH]; intros t rest P.
  - rewrite (move_nothing s size t rest N P); cbn; lra.
  - eapply Rle_trans; [apply (move_chain s size t (own ++ rest) rest N)|].
    assert (size (move s t (own ++ rest)) <= delta) by (apply S; now apply row_removed with r (own ++ rest)).
    specialize (IH (own ++ rest) rest (Permutation_refl _)); cbn [length]; rewrite S_INR; lra.
Qed.

Lemma replaced_chain {Row I} (s : Row -> I -> R) size delta own : seminorm size ->
  sensitivity ReplaceOne s size delta ->
  forall own' t t' rest, length own = length own' -> Permutation t (own ++ rest) ->
  Permutation t' (own' ++ rest) -> size (move s t t') <= INR (length own) * delta.
Proof.
  intros N S; induction own as [|r own IH]; intros own' t t' rest L P P'.
  - destruct own'; [|easy]; rewrite (move_nothing s size t t' N); [cbn; lra|].
    now rewrite P, P'.
  - destruct own' as [|r' own']; [easy|]; injection L as L.
    eapply Rle_trans; [apply (move_chain s size t (r' :: own ++ rest) t' N)|].
    assert (size (move s t (r' :: own ++ rest)) <= delta)
      by (apply S; now apply row_replaced with r r' (own ++ rest)).
    specialize (IH own' (r' :: own ++ rest) t' (r' :: rest) L).
    cbn [length]; rewrite S_INR.
    enough (size (move s (r' :: own ++ rest) t') <= INR (length own) * delta) by lra.
    apply IH; [apply Permutation_middle | now rewrite P', <- Permutation_middle].
Qed.

Theorem S7_persons Row I (s : Row -> I -> R) size m delta how : seminorm size -> 0 <= delta ->
  sensitivity how s size delta -> person_sensitivity m how s size (INR m * delta).
Proof.
  intros N D S t t' P.
  assert (B : forall n, (n <= m)%nat -> INR n * delta <= INR m * delta)
    by (intros n L; apply Rmult_le_compat_r; [easy | now apply le_INR]).
  inversion P as [? ? own rest Q Q' L | ? ? own rest Q Q' L | ? ? own own' rest Q Q' L E]; subst.
  - eapply Rle_trans; [|apply (B (length own) L)].
    eapply Rle_trans; [apply (move_chain s size t rest t' N)|].
    rewrite (move_nothing s size rest t' N) by (now symmetry).
    pose proof (removed_chain s size delta own N S t rest Q); lra.
  - eapply Rle_trans; [|apply (B (length own) L)]; rewrite (move_back s size t t' N).
    eapply Rle_trans; [apply (move_chain s size t' rest t N)|].
    rewrite (move_nothing s size rest t N) by (now symmetry).
    pose proof (removed_chain s size delta own N S t' rest Q'); lra.
  - eapply Rle_trans; [|apply (B (length own) L)].
    now apply (replaced_chain s size delta own N S own' t t' rest).
Qed.

(* Mixed cases: n rows are replaced, and others come and go. *)
Theorem S7_mixed Row I (s : Row -> I -> R) size delta delta' own own' gone come t t' rest : seminorm size ->
  sensitivity ReplaceOne s size delta -> sensitivity AddRemove s size delta' ->
  length own = length own' ->
  Permutation t (own ++ gone ++ rest) -> Permutation t' (own' ++ come ++ rest) ->
  size (move s t t') <= INR (length own) * delta + (INR (length gone) + INR (length come)) * delta'.
Proof.
  intros N S S' L P P'.
  eapply Rle_trans; [apply (move_chain s size t (own' ++ gone ++ rest) t' N)|].
  pose proof (replaced_chain s size delta own N S own' t (own' ++ gone ++ rest) (gone ++ rest) L P
    (Permutation_refl _)) as A.
  enough (size (move s (own' ++ gone ++ rest) t') <= (INR (length gone) + INR (length come)) * delta') by lra.
  eapply Rle_trans; [apply (move_chain s size _ (own' ++ rest) t' N)|].
  assert (size (move s (own' ++ gone ++ rest) (own' ++ rest)) <= INR (length gone) * delta') as B.
  { apply (removed_chain s size delta' gone N S'); rewrite !app_assoc.
    apply Permutation_app_tail, Permutation_app_comm. }
  rewrite (move_back s size (own' ++ rest) t' N).
  assert (size (move s t' (own' ++ rest)) <= INR (length come) * delta') as C.
  { apply (removed_chain s size delta' come N S'); rewrite P', !app_assoc.
    apply Permutation_app_tail, Permutation_app_comm. }
  lra.
Qed.

(* Moving m equal rows from v to -v reaches m times the sensitivity 2 |v| of (S-2). *)
Theorem S7_reached : forall m C, 0 <= C ->
  let s (r : bool) (_ : unit) := if r then C else - C in
  exists t t', person_neighbours m ReplaceOne t t' /\ norm [tt] (move s t t') = INR m * (2 * C).
Proof.
  intros m C P s; exists (repeat true m), (repeat false m); split.
  - apply person_replaced with (repeat true m) (repeat false m) []; rewrite ?app_nil_r, ?repeat_length; auto.
  - assert (E : forall b, total s (repeat b m) tt = INR m * s b tt).
    { intros b; unfold total; induction m as [|m IH]; [cbn; ring|].
      cbn [repeat sum]; rewrite IH, S_INR; ring. }
    unfold norm, dot, move; cbn [sum]; rewrite !E; unfold s.
    pose proof (pos_INR m).
    replace (_ + 0) with (INR m * (2 * C) * (INR m * (2 * C))) by ring; apply sqrt_square.
    apply Rmult_le_pos; lra.
Qed.

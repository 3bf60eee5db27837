(* Persons that a column names (docs/proofs/persons.md). With `person=`, a release whose sensitivity for one row
   is Delta has sensitivity m Delta for one person, under both neighbouring relations, if at most m rows of
   each owner are read by a rule that looks at this owner's rows alone.

   Relied on by: src/dpem/data/sources/persons.py and owners.py. *)
From DPEM Require Import Tables S07_Persons.

(* A table of pairs of an owner and a row. D_o: the rows of owner o. *)
Definition rows_of {Row} (o : nat) (D : list (nat * Row)) : list Row :=
  map snd (filter (fun r => Nat.eqb (fst r) o) D).

(* K(D): the rows that are read. `names` are the owners; a cell that names nobody is in no list of names. *)
Definition kept {Row} (keep : list Row -> list Row) (names : list nat) (D : list (nat * Row)) : list Row :=
  flat_map (fun o => keep (rows_of o D)) names.

(* The rule keeps min(c, m) rows of c. *)
Definition capped {Row} (m : nat) (keep : list Row -> list Row) : Prop :=
  forall l, length (keep l) = Nat.min (length l) m.

(* Replace-one: the same owners in the same places, and the same rows except those of the person p. *)
Definition rows_replaced {Row} (p : nat) (D D' : list (nat * Row)) : Prop :=
  Forall2 (fun r r' => fst r = fst r' /\ (fst r <> p -> snd r = snd r')) D D'.

(* Add/remove: D' is D without all rows of the person p, however many. *)
Definition rows_removed {Row} (p : nat) (D D' : list (nat * Row)) : Prop :=
  D' = filter (fun r => negb (Nat.eqb (fst r) p)) D.

Lemma others_unchanged {Row} p o (D D' : list (nat * Row)) : rows_replaced p D D' -> o <> p ->
  rows_of o D = rows_of o D'.
Proof.
  unfold rows_of; induction 1 as [|(q, r) (q', r') D D' (E & S) _ IH]; intros N; [reflexivity|].
  cbn in *; subst q'; destruct (Nat.eqb_spec q o) as [->|]; cbn; [|now apply IH].
  rewrite S, IH; easy.
Qed.

Lemma as_many_rows {Row} p o (D D' : list (nat * Row)) : rows_replaced p D D' ->
  length (rows_of o D) = length (rows_of o D').
Proof.
  unfold rows_of; induction 1 as [|(q, r) (q', r') D D' (E & S) _ IH]; [reflexivity|].
  cbn in *; subst q'; destruct (Nat.eqb_spec q o); cbn; lia.
Qed.

Lemma rows_after_removal {Row} p o (D : list (nat * Row)) :
  rows_of o (filter (fun r => negb (Nat.eqb (fst r) p)) D) = if Nat.eqb o p then [] else rows_of o D.
Proof.
  unfold rows_of; induction D as [|(q, r) D IH]; [now destruct (Nat.eqb o p)|]; cbn.
  destruct (Nat.eqb_spec q p) as [->|N]; cbn.
  - rewrite IH; destruct (Nat.eqb_spec o p) as [->|M]; [reflexivity|].
    destruct (Nat.eqb_spec p o); [congruence | reflexivity].
  - destruct (Nat.eqb_spec q o) as [->|M]; cbn; rewrite IH; destruct (Nat.eqb_spec o p); congruence || reflexivity.
Qed.

Lemma kept_same {Row} (keep : list Row -> list Row) names D D' :
  (forall o, In o names -> rows_of o D = rows_of o D') -> kept keep names D = kept keep names D'.
Proof.
  unfold kept; induction names as [|o names IH]; intros H; [reflexivity|]; cbn.
  rewrite (H o (or_introl eq_refl)), IH; [reflexivity|]; intros; apply H; now right.
Qed.

(* The rows of the person p apart. *)
Lemma kept_split {Row} (keep : list Row -> list Row) names p : In p names -> NoDup names ->
  exists others, ~ In p others /\
    forall D', Permutation (kept keep names D') (keep (rows_of p D') ++ kept keep others D').
Proof.
  intros I N; destruct (in_split p names I) as (a & b & ->); exists (a ++ b); split.
  - now apply NoDup_remove_2.
  - intros D'; unfold kept; rewrite !flat_map_app; cbn; rewrite !app_assoc.
    apply Permutation_app_tail, Permutation_app_comm.
Qed.

(* Steps 1 to 4: K(D') comes from K(D) by replacing at most m rows. *)
Theorem persons_replaced Row (keep : list Row -> list Row) m names p D D' : capped m keep -> NoDup names ->
  rows_replaced p D D' -> person_neighbours m ReplaceOne (kept keep names D) (kept keep names D').
Proof.
  intros C N H; destruct (in_dec Nat.eq_dec p names) as [I|I].
  - destruct (kept_split keep names p I N) as (others & O & S).
    apply person_replaced with (keep (rows_of p D)) (keep (rows_of p D')) (kept keep others D).
    + apply S.
    + rewrite (kept_same keep others D D'); [apply S|].
      intros o J; apply (others_unchanged p); [easy | congruence].
    + rewrite C; apply Nat.le_min_r.
    + now rewrite !C, (as_many_rows p p D D' H).
  - apply person_replaced with [] [] (kept keep names D); cbn; [reflexivity | | lia | reflexivity].
    rewrite (kept_same keep names D' D); [reflexivity|].
    intros o J; symmetry; apply (others_unchanged p); [easy | congruence].
Qed.

(* The number of rows that are read is the same in both tables. *)
Theorem persons_count Row (keep : list Row -> list Row) m names p D D' : capped m keep ->
  rows_replaced p D D' -> length (kept keep names D) = length (kept keep names D').
Proof.
  intros C H; unfold kept; induction names as [|o names IH]; [reflexivity|]; cbn.
  now rewrite !app_length, IH, !C, (as_many_rows p o D D' H).
Qed.

(* Add/remove: at most m rows are removed. *)
Theorem persons_removed Row (keep : list Row -> list Row) m names p D D' : capped m keep -> NoDup names ->
  rows_removed p D D' -> person_neighbours m AddRemove (kept keep names D) (kept keep names D').
Proof.
  intros C N ->.
  assert (E : keep [] = []) by (specialize (C []); cbn in C; now destruct (keep [])).
  set (D' := filter _ D); destruct (in_dec Nat.eq_dec p names) as [I|I].
  - destruct (kept_split keep names p I N) as (others & O & S).
    apply person_removed with (keep (rows_of p D)) (kept keep others D); [apply S | | rewrite C; apply Nat.le_min_r].
    rewrite S; unfold D' at 1; rewrite rows_after_removal, Nat.eqb_refl, E; cbn.
    rewrite (kept_same keep others D' D); [reflexivity|].
    intros o J; unfold D'; rewrite rows_after_removal; destruct (Nat.eqb_spec o p); congruence.
  - apply person_removed with [] (kept keep names D); cbn; [reflexivity | | lia].
    rewrite (kept_same keep names D' D); [reflexivity|].
    intros o J; unfold D'; rewrite rows_after_removal; destruct (Nat.eqb_spec o p); congruence.
Qed.

(* The claim: sensitivity m Delta for one person, under both relations. *)
Theorem persons Row I (s : Row -> I -> R) size delta (keep : list Row -> list Row) m names p D D' :
  seminorm size -> 0 <= delta -> capped m keep -> NoDup names ->
  (sensitivity ReplaceOne s size delta -> rows_replaced p D D' ->
     size (move s (kept keep names D) (kept keep names D')) <= INR m * delta) /\
  (sensitivity AddRemove s size delta -> rows_removed p D D' ->
     size (move s (kept keep names D) (kept keep names D')) <= INR m * delta /\
     size (move s (kept keep names D') (kept keep names D)) <= INR m * delta).
Proof.
  intros S P C N; split; intros T H.
  - apply (S7_persons Row I s size m delta ReplaceOne S P T); now apply persons_replaced with p.
  - rewrite (move_back s size (kept keep names D') _ S); split;
      apply (S7_persons Row I s size m delta AddRemove S P T); now apply persons_removed with p.
Qed.

(* Two people under one name o, under add/remove: if one of them leaves, rows of the other that had been left out
   may come in. Each alone moves the sum by at most 2 m Delta. *)
Theorem two_people_of_one_name Row I (s : Row -> I -> R) size delta (keep : list Row -> list Row) m l l' rest :
  seminorm size -> 0 <= delta -> capped m keep -> sensitivity AddRemove s size delta ->
  size (move s (keep l ++ rest) (keep l' ++ rest)) <= 2 * INR m * delta.
Proof.
  intros S P C T.
  pose proof (S7_mixed Row I s size (2 * delta) delta [] [] (keep l) (keep l') (keep l ++ rest)
    (keep l' ++ rest) rest S (replace_one_is_two_moves s size delta S T) T eq_refl
    (Permutation_refl _) (Permutation_refl _)) as M.
  eapply Rle_trans; [exact M|]; cbn [length]; rewrite !C; cbn [INR].
  assert (B : forall n, INR (Nat.min n m) * delta <= INR m * delta)
    by (intros; apply Rmult_le_compat_r; [easy | apply le_INR, Nat.le_min_r]).
  pose proof (B (length l)); pose proof (B (length l')); lra.
Qed.

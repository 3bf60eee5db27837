(* Tables and neighbouring relations, and the two lemmas of docs/proofs/sensitivity.md: the triangle
   inequality and the cone.

   A table is a list of rows, of any type and any length. A statistic s gives every row a vector; its total
   is the sum over the rows of the table. The sensitivity is a bound on the size of the difference of the
   totals of two neighbouring tables.

   Relied on by: every `sensitivity` method of src/dpem/statistics, and src/dpem/privacy/sensitivity.py. *)
From DPEM Require Export Vectors.

Definition total {Row I} (s : Row -> I -> R) (table : list Row) (i : I) : R := sum table (fun r => s r i).

Inductive relation := AddRemove | ReplaceOne.

(* One table has one row more, or one row of the table is another. The order of rows does not matter. *)
Inductive neighbours {Row} : relation -> list Row -> list Row -> Prop :=
| row_removed t t' r rest : Permutation t (r :: rest) -> Permutation t' rest -> neighbours AddRemove t t'
| row_added t t' r rest : Permutation t rest -> Permutation t' (r :: rest) -> neighbours AddRemove t t'
| row_replaced t t' r r' rest :
    Permutation t (r :: rest) -> Permutation t' (r' :: rest) -> neighbours ReplaceOne t t'.

(* What a release moves by if the table becomes its neighbour. *)
Definition move {Row I} (s : Row -> I -> R) (t t' : list Row) (i : I) : R := total s t i - total s t' i.

Definition sensitivity {Row I} (how : relation) (s : Row -> I -> R) (size : (I -> R) -> R) (delta : R) : Prop :=
  forall t t', neighbours how t t' -> size (move s t t') <= delta.

(* Some pair of neighbouring tables moves the total by exactly the bound. *)
Definition reached {Row I} (how : relation) (s : Row -> I -> R) (size : (I -> R) -> R) (delta : R) : Prop :=
  exists t t', neighbours how t t' /\ size (move s t t') = delta.

Lemma total_permutation {Row I} (s : Row -> I -> R) t t' i : Permutation t t' -> total s t i = total s t' i.
Proof. apply sum_permutation. Qed.

Lemma move_of_removed {Row I} (s : Row -> I -> R) t t' r rest i :
  Permutation t (r :: rest) -> Permutation t' rest -> move s t t' i = s r i.
Proof.
  intros P P'; unfold move; rewrite (total_permutation s t _ i P), (total_permutation s t' _ i P').
  unfold total; cbn; ring.
Qed.

Lemma move_of_replaced {Row I} (s : Row -> I -> R) t t' r r' rest i :
  Permutation t (r :: rest) -> Permutation t' (r' :: rest) -> move s t t' i = s r i - s r' i.
Proof.
  intros P P'; unfold move; rewrite (total_permutation s t _ i P), (total_permutation s t' _ i P').
  unfold total; cbn; ring.
Qed.

(* Add/remove: the sum moves by the vector of one row. *)
Lemma add_remove_of_rows {Row I} (s : Row -> I -> R) size c :
  seminorm size -> (forall r, size (s r) <= c) -> sensitivity AddRemove s size c.
Proof.
  intros (E & _ & O & _) H t t' N; inversion N as [? ? r rest P P' | ? ? r rest P P' |]; subst.
  - rewrite (E _ (s r)); [apply H|]; intros i; now apply (move_of_removed s t t' r rest).
  - rewrite (E _ (fun i => - s r i)), O; [apply H|]; intros i.
    rewrite <- (move_of_removed s t' t r rest i P' P); unfold move; ring.
Qed.

(* Replace-one: the sum moves by the difference of the vectors of two rows. *)
Lemma replace_one_of_rows {Row I} (s : Row -> I -> R) size c :
  seminorm size -> (forall r r', size (fun i => s r i - s r' i) <= c) -> sensitivity ReplaceOne s size c.
Proof.
  intros (E & _) H t t' N; inversion N as [| | ? ? r r' rest P P']; subst.
  rewrite (E _ (fun i => s r i - s r' i)); [apply H|]; intros i; now apply (move_of_replaced s t t' r r' rest).
Qed.

(* Triangle inequality: if |s| <= C for every row, add/remove has sensitivity C and replace-one 2 C. *)
Theorem triangle {Row I} (s : Row -> I -> R) size c : seminorm size -> (forall r, size (s r) <= c) ->
  sensitivity AddRemove s size c /\ sensitivity ReplaceOne s size (2 * c).
Proof.
  intros N H; split; [now apply add_remove_of_rows|].
  apply replace_one_of_rows; [easy|]; intros r r'; destruct N as (_ & _ & _ & T).
  specialize (T (s r) (s r')); pose proof (H r); pose proof (H r'); lra.
Qed.

(* Cone: if also <s, s'> >= 0 for every two rows, replace-one has sensitivity sqrt 2 C. *)
Theorem cone {Row I} (index : list I) (s : Row -> I -> R) c : 0 <= c -> (forall r, norm index (s r) <= c) ->
  (forall r r', 0 <= dot index (s r) (s r')) ->
  sensitivity AddRemove s (norm index) c /\ sensitivity ReplaceOne s (norm index) (sqrt 2 * c).
Proof.
  intros C H P; split; [apply add_remove_of_rows; [apply norm_seminorm | easy]|].
  apply replace_one_of_rows; [apply norm_seminorm|]; intros r r'.
  pose proof sqrt2_pos; apply norm_le; [apply Rmult_le_pos; lra|].
  rewrite dot_minus; pose proof (dot_le index (s r) c (H r)); pose proof (dot_le index (s r') c (H r')).
  pose proof (P r r'); replace (sqrt 2 * c * (sqrt 2 * c)) with (sqrt 2 * sqrt 2 * (c * c)) by ring.
  rewrite sqrt2_square; lra.
Qed.

(* Vectors without negative entries satisfy the condition of the cone. *)
Theorem cone_of_nonnegative {Row I} (index : list I) (s : Row -> I -> R) c : 0 <= c ->
  (forall r, norm index (s r) <= c) -> (forall r i, 0 <= s r i) ->
  sensitivity AddRemove s (norm index) c /\ sensitivity ReplaceOne s (norm index) (sqrt 2 * c).
Proof. intros C H P; apply cone; try easy; intros; now apply dot_nonneg. Qed.

(* Two rows whose vectors have norm C and are orthogonal reach both bounds of the cone. *)
Lemma reached_by_rows {Row I} (index : list I) (s : Row -> I -> R) r r' c : 0 <= c ->
  dot index (s r) (s r) = c * c -> dot index (s r') (s r') = c * c -> dot index (s r) (s r') = 0 ->
  reached AddRemove s (norm index) c /\ reached ReplaceOne s (norm index) (sqrt 2 * c).
Proof.
  intros C A B D; split.
  - exists [r], []; split; [now apply row_removed with r []|].
    rewrite (norm_eq index _ (s r)) by (intros; unfold move, total; cbn; ring).
    unfold norm; rewrite A; now apply sqrt_square.
  - exists [r], [r']; split; [now apply row_replaced with r r' []|].
    rewrite (norm_eq index _ (fun i => s r i - s r' i)) by (intros; unfold move, total; cbn; ring).
    unfold norm; rewrite dot_minus, A, B, D.
    replace (c * c + c * c - 2 * 0) with (2 * (c * c)) by ring.
    rewrite sqrt_mult_alt by lra; f_equal; now apply sqrt_square.
Qed.

(* A size that is never larger has a sensitivity that is never larger. *)
Lemma sensitivity_of_smaller {Row I J} how (s : Row -> I -> R) (s' : Row -> J -> R) size size' c :
  (forall t t', size' (move s' t t') <= size (move s t t')) ->
  sensitivity how s size c -> sensitivity how s' size' c.
Proof. intros H S t t' N; eapply Rle_trans; [apply H | now apply S]. Qed.

(* Replacing a row is removing it and adding another. *)
Lemma replace_one_is_two_moves {Row I} (s : Row -> I -> R) size c :
  seminorm size -> sensitivity AddRemove s size c -> sensitivity ReplaceOne s size (2 * c).
Proof.
  intros (E & _ & _ & T) A t t' N; inversion N as [| | ? ? r r' rest P P']; subst.
  rewrite (E _ (fun i => move s t rest i - move s t' rest i)) by (intros; unfold move; ring).
  eapply Rle_trans; [apply T|].
  assert (size (move s t rest) <= c) by (apply A; now apply row_removed with r rest).
  assert (size (move s t' rest) <= c) by (apply A; now apply row_removed with r' rest).
  lra.
Qed.

(* Responsibilities of a row: g_k >= 0 and sum_k g_k <= 1. *)
Definition responsibilities (K : nat) (g : nat -> R) : Prop := (forall k, 0 <= g k) /\ sum (upto K) g <= 1.

Lemma responsibilities_norm K g : responsibilities K g -> dot (upto K) g g <= 1.
Proof.
  intros (P & S); pose proof (sum_of_squares (upto K) g (fun k _ => P k)) as H.
  assert (0 <= sum (upto K) g) by (apply sum_nonneg; auto); unfold dot; nra.
Qed.

Lemma responsibilities_dot K g g' : responsibilities K g -> responsibilities K g' ->
  0 <= dot (upto K) g g' <= 1.
Proof.
  intros G G'; split; [apply dot_nonneg; [apply G | apply G']|].
  pose proof (responsibilities_norm K g G); pose proof (responsibilities_norm K g' G').
  pose proof (dot_self (upto K) (fun k => g k - g' k)) as D; rewrite dot_minus in D; lra.
Qed.

(* (S-11) Squares of columns. The row adds (y_j^2 / w_j^2)_j, where y is the row about a released centre and w are
   public or released widths. A vector longer than C is scaled down to norm C, and rounded down. No entry is
   negative. The sensitivity is C, and sqrt 2 C if a row is replaced. A basis: with orthonormal columns B,
   (B'u, |u - BB'u|) has the norm of u.

   Relied on by: `ColumnSquares` of src/dpem/statistics/simple.py, src/dpem/statistics/projection.py. *)
From Coq Require Import ZArith.
From Flocq Require Import Core.Raux.
From DPEM Require Import Tables S01_Counts S06_ClippedVector.

Definition column_squares {Row} (y : Row -> nat -> R) (w : nat -> R) (r : Row) (j : nat) : R :=
  y r j * y r j / (w j * w j).

(* Rounding down keeps entries that are not negative so, and makes no such vector longer. *)
Lemma floor_of_nonnegative x : 0 <= x -> 0 <= IZR (Zfloor x) <= x.
Proof.
  intros H; split; [|apply Zfloor_lb].
  apply IZR_le, Zfloor_lub; easy.
Qed.

Theorem S11_column_squares Row (y : Row -> nat -> R) (w : nat -> R) d C unit : 0 < C -> 0 < unit ->
  (forall j, w j <> 0) ->
  (* The code scales C to `unit` of the sums and rounds down. *)
  let scaled r j := IZR (Zfloor (unit / C * clip (norm (upto d)) C (column_squares y w r) j)) in
  sensitivity AddRemove scaled (norm (upto d)) unit /\
  sensitivity ReplaceOne scaled (norm (upto d)) (sqrt 2 * unit).
Proof.
  intros P U W scaled.
  assert (N : forall r j, 0 <= unit / C * clip (norm (upto d)) C (column_squares y w r) j).
  { intros r j; apply Rmult_le_pos; [apply Rmult_le_pos; [lra | left; now apply Rinv_0_lt_compat]|].
    unfold clip; apply Rmult_le_pos.
    - apply Rmult_le_pos; [lra|]; left; apply Rinv_0_lt_compat; eapply Rlt_le_trans; [exact P | apply Rmax_r].
    - unfold column_squares; apply Rmult_le_pos; [apply Rle_0_sqr|].
      left; apply Rinv_0_lt_compat; specialize (W j); destruct (Rdichotomy _ _ W); nra. }
  apply cone_of_nonnegative; [lra | |].
  - intros r; apply Rle_trans with (norm (upto d) (fun j => unit / C * clip (norm (upto d)) C (column_squares y w r) j)).
    + apply norm_smaller; intros j _; destruct (floor_of_nonnegative _ (N r j)).
      unfold scaled; rewrite !Rabs_pos_eq; easy.
    + rewrite norm_scale, Rabs_pos_eq by (apply Rmult_le_pos; [lra | left; now apply Rinv_0_lt_compat]).
      apply Rle_trans with (unit / C * C); [|right; field; lra].
      apply Rmult_le_compat_l; [|now apply clip_norm].
      apply Rmult_le_pos; [lra | left; now apply Rinv_0_lt_compat].
  - intros r j; unfold scaled; apply floor_of_nonnegative, N.
Qed.

(* What the code checks in integers suffices by itself: entries that are not negative and a bounded norm. *)
Theorem S11_checked Row (v : Row -> nat -> R) d C : 0 <= C -> (forall r j, 0 <= v r j) ->
  (forall r, dot (upto d) (v r) (v r) <= C * C) ->
  sensitivity AddRemove v (norm (upto d)) C /\ sensitivity ReplaceOne v (norm (upto d)) (sqrt 2 * C).
Proof. intros P N H; apply cone_of_nonnegative; try easy; intros; now apply norm_le. Qed.

(* Two rows along different columns reach the bounds. *)
Theorem S11_reached : forall d C, (2 <= d)%nat -> 0 <= C ->
  let v (r j : nat) := C * vertex r j in
  reached AddRemove v (norm (upto d)) C /\ reached ReplaceOne v (norm (upto d)) (sqrt 2 * C).
Proof.
  intros d C H P v.
  assert (D : forall r r', (r < d)%nat -> dot (upto d) (v r) (v r') = C * C * vertex r r').
  { intros r r' L; rewrite <- (vertex_dot d r r' L); unfold dot, v; rewrite <- sum_scale.
    apply sum_eq; intros; ring. }
  apply (reached_by_rows _ v 0%nat 1%nat); [easy | | |]; rewrite D by lia; unfold vertex; cbn; ring.
Qed.
(* A basis of p orthonormal columns b_0, ..., b_(p-1) of length d. *)
Definition orthonormal (d p : nat) (b : nat -> nat -> R) : Prop :=
  forall c c', In c (upto p) -> In c' (upto p) -> dot (upto d) (b c) (b c') = vertex c c'.

Definition projected (d p : nat) (b : nat -> nat -> R) (u : nat -> R) (j : nat) : R :=
  sum (upto p) (fun c => dot (upto d) (b c) u * b c j).

Lemma sum_vertex_in (l : list nat) c f : NoDup l -> In c l -> sum l (fun c' => vertex c c' * f c') = f c.
Proof.
  induction l as [|a l IH]; intros N I; [easy|]; inversion N as [|? ? O N']; subst; cbn; unfold vertex at 1.
  destruct (Nat.eqb_spec c a) as [->|D].
  - rewrite sum_zero; [ring|]; intros b J; unfold vertex.
    destruct (Nat.eqb_spec a b) as [->|]; [easy | ring].
  - destruct I as [->|I]; [easy|]; rewrite IH by easy; ring.
Qed.

Theorem S11_basis d p b u : orthonormal d p b ->
  dot (upto p) (fun c => dot (upto d) (b c) u) (fun c => dot (upto d) (b c) u)
  + dot (upto d) (fun j => u j - projected d p b u j) (fun j => u j - projected d p b u j)
  = dot (upto d) u u.
Proof.
  intros O; rewrite dot_minus.
  set (m := fun c => dot (upto d) (b c) u).
  assert (A : dot (upto d) u (projected d p b u) = dot (upto p) m m).
  { unfold dot at 1, projected.
    rewrite (sum_eq (upto d) _ (fun j => sum (upto p) (fun c => m c * (b c j * u j)))).
    - rewrite sum_swap; apply sum_eq; intros c; rewrite sum_scale; reflexivity.
    - intros j; rewrite <- sum_scale; apply sum_eq; intros c; fold (m c); ring. }
  assert (B : dot (upto d) (projected d p b u) (projected d p b u) = dot (upto p) m m).
  { unfold dot at 1, projected.
    rewrite (sum_eq (upto d) _ (fun j => sum (upto p) (fun c => sum (upto p) (fun c' =>
      m c * m c' * (b c j * b c' j))))).
    - rewrite sum_swap; unfold dot at 1; apply sum_ext; intros c I; rewrite sum_swap.
      rewrite (sum_ext _ _ (fun c' => vertex c c' * (m c * m c'))).
      + rewrite sum_vertex_in; [reflexivity | apply seq_NoDup | easy].
      + intros c' I'; rewrite sum_scale; fold (dot (upto d) (b c) (b c')); rewrite O by easy; ring.
    - intros j; rewrite sum_product; apply sum_eq; intros c; apply sum_eq; intros c'.
      fold (m c) (m c'); ring. }
  rewrite A, B; ring.
Qed.

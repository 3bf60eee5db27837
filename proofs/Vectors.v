(* Finite vectors: sums, inner products and norms over a list of entries, with the inequality of Cauchy and
   Schwarz and the triangle inequality. An index is a list of names of entries. A vector is a function from
   names to real numbers, of which only the entries in the index count.

   Relied on by: all files about sensitivities. *)
From Coq Require Export Reals List Lra Lia Permutation.
From Coq Require Import Psatz.
Export ListNotations.
Open Scope R_scope.

(* The numbers 0, ..., n - 1: components or columns. *)
Definition upto (n : nat) : list nat := seq 0 n.

Fixpoint sum {A : Type} (l : list A) (f : A -> R) : R :=
  match l with [] => 0 | a :: l => f a + sum l f end.

(* -- sums ----------------------------------------------------------------------------------------- *)

Lemma sum_ext {A} (l : list A) f g : (forall a, In a l -> f a = g a) -> sum l f = sum l g.
Proof.
  induction l as [|a l IH]; intros H; cbn; [reflexivity|].
  rewrite (H a), IH; [reflexivity | intros; apply H; now right | now left].
Qed.

Lemma sum_eq {A} (l : list A) f g : (forall a, f a = g a) -> sum l f = sum l g.
Proof. intros H; apply sum_ext; intros; apply H. Qed.

Lemma sum_le {A} (l : list A) f g : (forall a, In a l -> f a <= g a) -> sum l f <= sum l g.
Proof.
  induction l as [|a l IH]; intros H; cbn; [lra|].
  apply Rplus_le_compat; [apply H; now left | apply IH; intros; apply H; now right].
Qed.

Lemma sum_nonneg {A} (l : list A) f : (forall a, In a l -> 0 <= f a) -> 0 <= sum l f.
Proof.
  induction l as [|a l IH]; intros H; cbn; [lra|].
  apply Rplus_le_le_0_compat; [apply H; now left | apply IH; intros; apply H; now right].
Qed.

Lemma sum_plus {A} (l : list A) f g : sum l (fun a => f a + g a) = sum l f + sum l g.
Proof. induction l as [|a l IH]; cbn; [|rewrite IH]; ring. Qed.

Lemma sum_minus {A} (l : list A) f g : sum l (fun a => f a - g a) = sum l f - sum l g.
Proof. induction l as [|a l IH]; cbn; [|rewrite IH]; ring. Qed.

Lemma sum_scale {A} (l : list A) c f : sum l (fun a => c * f a) = c * sum l f.
Proof. induction l as [|a l IH]; cbn; [|rewrite IH]; ring. Qed.

Lemma sum_zero {A} (l : list A) f : (forall a, In a l -> f a = 0) -> sum l f = 0.
Proof.
  intros H; rewrite (sum_ext l f (fun _ => 0 * 0)); [rewrite sum_scale; ring|].
  intros a I; rewrite (H a I); ring.
Qed.

Lemma sum_const {A} (l : list A) c : sum l (fun _ => c) = INR (length l) * c.
Proof. induction l as [|a l IH]; cbn [sum length]; [cbn; ring | rewrite IH, S_INR; ring]. Qed.

Lemma sum_app {A} (l m : list A) f : sum (l ++ m) f = sum l f + sum m f.
Proof. induction l as [|a l IH]; cbn; [|rewrite IH]; ring. Qed.

Lemma sum_map {A B} (l : list A) (h : A -> B) f : sum (map h l) f = sum l (fun a => f (h a)).
Proof. induction l as [|a l IH]; cbn; [|rewrite IH]; reflexivity. Qed.

Lemma sum_flat_map {A B} (l : list A) (h : A -> list B) f :
  sum (flat_map h l) f = sum l (fun a => sum (h a) f).
Proof. induction l as [|a l IH]; cbn; [|rewrite sum_app, IH]; reflexivity. Qed.

Lemma sum_swap {A B} (l : list A) (m : list B) f :
  sum l (fun a => sum m (fun b => f a b)) = sum m (fun b => sum l (fun a => f a b)).
Proof.
  induction l as [|a l IH]; cbn.
  - symmetry; now apply sum_zero.
  - now rewrite IH, <- sum_plus.
Qed.

Lemma sum_product {A B} (l : list A) (m : list B) f g :
  sum l f * sum m g = sum l (fun a => sum m (fun b => f a * g b)).
Proof.
  rewrite Rmult_comm, <- sum_scale; apply sum_eq; intros a.
  rewrite sum_scale; ring.
Qed.

Lemma sum_term {A} (l : list A) f a : (forall b, In b l -> 0 <= f b) -> In a l -> f a <= sum l f.
Proof.
  induction l as [|b l IH]; intros H I; [easy|]; cbn.
  assert (0 <= sum l f) by (apply sum_nonneg; intros; apply H; now right).
  assert (0 <= f b) by (apply H; now left).
  destruct I as [-> | I]; [lra|].
  assert (f a <= sum l f) by (apply IH; [intros; apply H; now right | easy]); lra.
Qed.

Lemma sum_permutation {A} (l m : list A) f : Permutation l m -> sum l f = sum m f.
Proof. induction 1; cbn; lra. Qed.

(* A sum of squares of numbers that are not negative is at most the square of their sum. *)
Lemma sum_of_squares {A} (l : list A) g :
  (forall a, In a l -> 0 <= g a) -> sum l (fun a => g a * g a) <= sum l g * sum l g.
Proof.
  induction l as [|a l IH]; intros H; cbn; [lra|].
  assert (0 <= sum l g) by (apply sum_nonneg; intros; apply H; now right).
  assert (0 <= g a) by (apply H; now left).
  assert (sum l (fun a => g a * g a) <= sum l g * sum l g) by (apply IH; intros; apply H; now right).
  nra.
Qed.

Lemma sum_abs {A} (l : list A) f : Rabs (sum l f) <= sum l (fun a => Rabs (f a)).
Proof.
  induction l as [|a l IH]; cbn; [rewrite Rabs_R0; lra|].
  eapply Rle_trans; [apply Rabs_triang | lra].
Qed.

(* -- inner products and norms --------------------------------------------------------------------- *)

Definition dot {I} (index : list I) (x y : I -> R) : R := sum index (fun i => x i * y i).

(* The Euclidean norm. For the entries of a matrix it is the Frobenius norm. *)
Definition norm {I} (index : list I) (x : I -> R) : R := sqrt (dot index x x).

Definition norm_l1 {I} (index : list I) (x : I -> R) : R := sum index (fun i => Rabs (x i)).

Lemma dot_self {I} (index : list I) x : 0 <= dot index x x.
Proof. apply sum_nonneg; intros; nra. Qed.

Lemma dot_sym {I} (index : list I) x y : dot index x y = dot index y x.
Proof. apply sum_eq; intros; ring. Qed.

Lemma norm_nonneg {I} (index : list I) x : 0 <= norm index x.
Proof. apply sqrt_pos. Qed.

Lemma norm_squared {I} (index : list I) x : norm index x * norm index x = dot index x x.
Proof. apply sqrt_sqrt, dot_self. Qed.

Lemma norm_le {I} (index : list I) x c : 0 <= c -> dot index x x <= c * c -> norm index x <= c.
Proof. intros C H; unfold norm; rewrite <- (sqrt_square c) by easy; now apply sqrt_le_1_alt. Qed.

Lemma dot_le {I} (index : list I) x c : norm index x <= c -> dot index x x <= c * c.
Proof. intros H; pose proof (norm_squared index x); pose proof (norm_nonneg index x); nra. Qed.

Lemma dot_minus {I} (index : list I) x y :
  dot index (fun i => x i - y i) (fun i => x i - y i) = dot index x x + dot index y y - 2 * dot index x y.
Proof. unfold dot; rewrite <- sum_plus, <- sum_scale, <- sum_minus; apply sum_eq; intros; ring. Qed.

Lemma dot_nonneg {I} (index : list I) x y :
  (forall i, 0 <= x i) -> (forall i, 0 <= y i) -> 0 <= dot index x y.
Proof. intros X Y; apply sum_nonneg; intros; now apply Rmult_le_pos. Qed.

Lemma discriminant x y m : 0 <= y -> (forall t, 0 <= x - 2 * t * m + t * t * y) -> m * m <= x * y.
Proof.
  intros Y H; destruct (Rle_lt_or_eq_dec 0 y Y) as [P | <-].
  - specialize (H (m / y)).
    assert (x - 2 * (m / y) * m + m / y * (m / y) * y = (x * y - m * m) / y) as E by (field; lra).
    rewrite E in H; apply (Rmult_le_compat_r y) in H; [|lra].
    replace ((x * y - m * m) / y * y) with (x * y - m * m) in H by (field; lra); lra.
  - destruct (Req_dec m 0) as [-> | N]; [lra|].
    specialize (H ((x + 1) / (2 * m))).
    replace (x - 2 * ((x + 1) / (2 * m)) * m + (x + 1) / (2 * m) * ((x + 1) / (2 * m)) * 0) with (-1) in H
      by (field; lra); lra.
Qed.

Lemma cauchy_schwarz {I} (index : list I) x y : dot index x y * dot index x y <= dot index x x * dot index y y.
Proof.
  apply discriminant; [apply dot_self|]; intros t.
  replace (dot index x x - 2 * t * dot index x y + t * t * dot index y y)
    with (dot index (fun i => x i - t * y i) (fun i => x i - t * y i)); [apply dot_self|].
  unfold dot; rewrite <- !sum_scale, <- sum_minus, <- sum_plus; apply sum_eq; intros; ring.
Qed.

Lemma dot_norms {I} (index : list I) x y : Rabs (dot index x y) <= norm index x * norm index y.
Proof.
  rewrite <- (Rabs_pos_eq (norm index x * norm index y))
    by (apply Rmult_le_pos; apply norm_nonneg).
  apply Rsqr_le_abs_0; unfold Rsqr.
  replace (norm index x * norm index y * (norm index x * norm index y))
    with (norm index x * norm index x * (norm index y * norm index y)) by ring.
  rewrite !norm_squared; apply cauchy_schwarz.
Qed.

Lemma norm_minus {I} (index : list I) x y : norm index (fun i => x i - y i) <= norm index x + norm index y.
Proof.
  pose proof (norm_nonneg index x); pose proof (norm_nonneg index y).
  apply norm_le; [lra|]; rewrite dot_minus, <- !norm_squared.
  pose proof (dot_norms index x y) as D; pose proof (Rle_abs (- dot index x y)) as A.
  rewrite Rabs_Ropp in A; nra.
Qed.

Lemma norm_plus {I} (index : list I) x y : norm index (fun i => x i + y i) <= norm index x + norm index y.
Proof.
  pose proof (norm_nonneg index x); pose proof (norm_nonneg index y).
  apply norm_le; [lra|].
  assert (dot index (fun i => x i + y i) (fun i => x i + y i)
    = dot index x x + dot index y y + 2 * dot index x y) as ->
    by (unfold dot; rewrite <- sum_scale, <- !sum_plus; apply sum_eq; intros; ring).
  rewrite <- !norm_squared; pose proof (dot_norms index x y) as D; pose proof (Rle_abs (dot index x y)); nra.
Qed.

Lemma norm_opposite {I} (index : list I) x : norm index (fun i => - x i) = norm index x.
Proof. unfold norm, dot; f_equal; apply sum_eq; intros; ring. Qed.

Lemma norm_scale {I} (index : list I) c x : norm index (fun i => c * x i) = Rabs c * norm index x.
Proof.
  unfold norm; replace (dot index (fun i => c * x i) (fun i => c * x i)) with (c * c * dot index x x)
    by (unfold dot; rewrite <- sum_scale; apply sum_eq; intros; ring).
  rewrite sqrt_mult_alt by nra; f_equal; apply sqrt_Rsqr_abs.
Qed.

Lemma norm_eq {I} (index : list I) x y : (forall i, x i = y i) -> norm index x = norm index y.
Proof. intros H; unfold norm, dot; f_equal; apply sum_eq; intros; now rewrite H. Qed.

Lemma norm_smaller {I} (index : list I) x y :
  (forall i, In i index -> Rabs (x i) <= Rabs (y i)) -> norm index x <= norm index y.
Proof.
  intros H; apply sqrt_le_1_alt, sum_le; intros i N; specialize (H i N).
  change (Rsqr (x i) <= Rsqr (y i)); now apply Rsqr_le_abs_1.
Qed.

Lemma norm_l1_minus {I} (index : list I) x y :
  norm_l1 index (fun i => x i - y i) <= norm_l1 index x + norm_l1 index y.
Proof.
  unfold norm_l1; rewrite <- sum_plus; apply sum_le; intros.
  unfold Rminus; eapply Rle_trans; [apply Rabs_triang | rewrite Rabs_Ropp; lra].
Qed.

(* The L1 norm of n entries is at most sqrt n times the Euclidean one. *)
Lemma norm_l1_le {I} (index : list I) x : norm_l1 index x <= sqrt (INR (length index)) * norm index x.
Proof.
  assert (P : 0 <= norm_l1 index x) by (apply sum_nonneg; intros; apply Rabs_pos).
  unfold norm; rewrite <- sqrt_mult_alt by apply pos_INR.
  rewrite <- (sqrt_square (norm_l1 index x)) by easy; apply sqrt_le_1_alt.
  pose proof (cauchy_schwarz index (fun _ => 1) (fun i => Rabs (x i))) as H.
  replace (dot index (fun _ => 1) (fun i => Rabs (x i))) with (norm_l1 index x) in H
    by (apply sum_eq; intros; ring).
  replace (dot index (fun _ => 1) (fun _ => 1)) with (INR (length index)) in H
    by (unfold dot; rewrite sum_const; ring).
  replace (dot index (fun i => Rabs (x i)) (fun i => Rabs (x i))) with (dot index x x) in H; [easy|].
  apply sum_eq; intros i; unfold Rabs; destruct (Rcase_abs (x i)); ring.
Qed.

(* -- norms and seminorms in general ---------------------------------------------------------------- *)

(* What the triangle lemma and persons need of a norm. *)
Definition seminorm {I} (size : (I -> R) -> R) : Prop :=
  (forall x y, (forall i, x i = y i) -> size x = size y) /\
  size (fun _ => 0) = 0 /\
  (forall x, size (fun i => - x i) = size x) /\
  (forall x y, size (fun i => x i - y i) <= size x + size y).

Lemma norm_seminorm {I} (index : list I) : seminorm (norm index).
Proof.
  split; [|split; [|split]].
  - apply norm_eq.
  - unfold norm, dot; rewrite sum_zero by (intros; ring); apply sqrt_0.
  - apply norm_opposite.
  - apply norm_minus.
Qed.

Lemma norm_l1_seminorm {I} (index : list I) : seminorm (norm_l1 index).
Proof.
  split; [|split; [|split]].
  - intros x y H; apply sum_eq; intros; now rewrite H.
  - apply sum_zero; intros; apply Rabs_R0.
  - intros x; apply sum_eq; intros; apply Rabs_Ropp.
  - apply norm_l1_minus.
Qed.

(* -- square roots ----------------------------------------------------------------------------------- *)

Lemma sqrt2_square : sqrt 2 * sqrt 2 = 2.
Proof. apply sqrt_sqrt; lra. Qed.

Lemma sqrt2_pos : 0 < sqrt 2.
Proof. apply sqrt_lt_R0; lra. Qed.

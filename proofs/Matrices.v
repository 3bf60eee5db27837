(* Outer products and upper triangles: Frobenius inner products of sums of outer products f f', and the release
   of a symmetric matrix by its upper triangle with noise sigma on the diagonal and sigma / sqrt 2 beside it.
   Distances relative to the noise are then at most Frobenius distances.

   Relied on by: `noise_shape` of SecondMoments (src/dpem/statistics/simple.py) and of FrameMoments
   (src/dpem/statistics/gaussian.py). *)
From DPEM Require Import Tables S02_Sums.

Notation entry := (nat * nat)%type.

(* All entries of an n x n matrix; its upper triangle; its diagonal. *)
Definition square (n : nat) : list entry := list_prod (upto n) (upto n).
Definition upper (n : nat) : list entry := filter (fun e => Nat.leb (fst e) (snd e)) (square n).

Definition outer (x : nat -> R) (e : entry) : R := x (fst e) * x (snd e).

(* sum_f f f' over a list of vectors: positive semidefinite by its form. *)
Definition gram {L} (l : list L) (f : L -> nat -> R) (e : entry) : R := sum l (fun a => outer (f a) e).

Lemma outer_dot n x y : dot (square n) (outer x) (outer y) = dot (upto n) x y * dot (upto n) x y.
Proof.
  unfold dot, square, outer; rewrite sum_list_prod, sum_product.
  apply sum_eq; intros i; apply sum_eq; intros j; cbn; ring.
Qed.

Lemma gram_dot {L M} n (l : list L) (m : list M) f h :
  dot (square n) (gram l f) (gram m h)
  = sum l (fun a => sum m (fun b => dot (upto n) (f a) (h b) * dot (upto n) (f a) (h b))).
Proof.
  unfold gram; unfold dot at 1.
  rewrite (sum_eq _ _ (fun e => sum l (fun a => sum m (fun b => outer (f a) e * outer (h b) e))))
    by (intros; now rewrite sum_product).
  rewrite sum_swap; apply sum_eq; intros a; rewrite sum_swap; apply sum_eq; intros b; apply outer_dot.
Qed.

Lemma gram_dot_nonneg {L M} n (l : list L) (m : list M) f h : 0 <= dot (square n) (gram l f) (gram m h).
Proof.
  rewrite gram_dot; apply sum_nonneg; intros; apply sum_nonneg; intros; apply Rle_0_sqr.
Qed.

(* -- the upper triangle ----------------------------------------------------------------------------- *)

(* Noise of an entry relative to that of the diagonal. The code rounds 1/sqrt 2 up. *)
Definition beside (w : R) (e : entry) : R := if Nat.eqb (fst e) (snd e) then 1 else w.

Lemma sum_filter {A} (l : list A) p f :
  sum (filter p l) f = sum l (fun a => if p a then f a else 0).
Proof. induction l as [|a l IH]; cbn; [reflexivity|]; destruct (p a); cbn; rewrite IH; ring. Qed.

Lemma square_swap n f : sum (square n) (fun e => f (fst e) (snd e)) = sum (square n) (fun e => f (snd e) (fst e)).
Proof. unfold square; rewrite !sum_list_prod; cbn; apply sum_swap. Qed.

Lemma upper_norm n w x : 0 < w -> 1 / 2 <= w * w -> (forall i j, x (i, j) = x (j, i)) ->
  dot (upper n) (fun e => x e / beside w e) (fun e => x e / beside w e) <= dot (square n) x x.
Proof.
  intros W H S; unfold dot, upper; rewrite sum_filter.
  set (above := fun i j : nat => if Nat.ltb i j then x (i, j) * x (i, j) else 0).
  set (diag := fun i j : nat => if Nat.eqb i j then x (i, j) * x (i, j) else 0).
  apply Rle_trans with
    (sum (square n) (fun e => diag (fst e) (snd e) + 2 * above (fst e) (snd e))).
  - apply sum_le; intros (i, j) _; unfold beside, diag, above; cbn [fst snd].
    assert (B : x (i, j) / w * (x (i, j) / w) <= 2 * (x (i, j) * x (i, j))).
    { replace (x (i, j) / w * (x (i, j) / w)) with (x (i, j) * x (i, j) / (w * w)) by (field; lra).
      apply Rmult_le_reg_r with (w * w); [now apply Rmult_lt_0_compat|].
      replace (x (i, j) * x (i, j) / (w * w) * (w * w)) with (x (i, j) * x (i, j)) by (field; lra).
      assert (0 <= w * w - 1 / 2) as V by lra.
      pose proof (Rmult_le_pos _ _ (Rle_0_sqr (x (i, j))) V) as Q; unfold Rsqr in Q; lra. }
    destruct (Nat.leb_spec i j); destruct (Nat.eqb_spec i j); destruct (Nat.ltb_spec i j); try lia.
    + unfold Rdiv; rewrite Rinv_1; lra.
    + lra.
    + lra.
  - rewrite sum_plus, sum_scale.
    replace (2 * sum (square n) (fun e => above (fst e) (snd e)))
      with (sum (square n) (fun e => above (fst e) (snd e)) + sum (square n) (fun e => above (snd e) (fst e)))
      by (rewrite (square_swap n (fun i j => above j i)); ring).
    rewrite <- !sum_plus; apply Req_le, sum_eq; intros (i, j); unfold diag, above; cbn [fst snd].
    rewrite (S j i); destruct (Nat.eqb_spec i j); destruct (Nat.ltb_spec i j); destruct (Nat.ltb_spec j i);
      lia || ring.
Qed.

(* Moments of Gaussian components: what (S-9) and (S-13) have in common. A row adds g_k M_k for every
   component k with moments, where M_k is a sum of outer products, and a o_b for every other component b.

   Relied on by: S09_MomentsInFrames.v and S13_MissingCells.v. *)
From DPEM Require Import Tables S02_Sums Matrices.

(* Responsibilities with a bound on their norm: sum_k g_k^2 + sum_b o_b^2 <= G^2. *)
Definition bounded_norm (K B : nat) (G : R) (g o : nat -> R) : Prop :=
  (forall k, 0 <= g k) /\ (forall b, 0 <= o b) /\ dot (upto K) g g + dot (upto B) o o <= G * G.

(* The same with a bound on their sum, as a tied covariance needs. *)
Definition bounded_sum (K B : nat) (G : R) (g o : nat -> R) : Prop :=
  (forall k, 0 <= g k) /\ (forall b, 0 <= o b) /\ sum (upto K) g + sum (upto B) o <= G.

(* Noise relative to that of a diagonal entry: 1/sqrt 2, rounded up. *)
Definition noise_beside (w : R) : Prop := 0 < w /\ 1 / 2 <= w * w.

Lemma beside_square w x : noise_beside w -> x / w * (x / w) <= 2 * (x * x).
Proof.
  intros (W & H); replace (x / w * (x / w)) with (x * x / (w * w)) by (field; lra).
  apply Rmult_le_reg_r with (w * w); [now apply Rmult_lt_0_compat|].
  replace (x * x / (w * w) * (w * w)) with (x * x) by (field; lra).
  assert (0 <= w * w - 1 / 2) as V by lra.
  pose proof (Rmult_le_pos _ _ (Rle_0_sqr x) V) as Q; unfold Rsqr in Q; lra.
Qed.

Lemma move_relative {Row I} (s : Row -> I -> R) noise t t' i :
  move (fun r i => s r i / noise i) t t' i = move s t t' i / noise i.
Proof.
  unfold move, total, Rdiv.
  assert (forall l, sum l (fun r => s r i * / noise i) = / noise i * sum l (fun r => s r i)) as E
    by (intros; rewrite <- sum_scale; apply sum_eq; intros; ring).
  rewrite !E; ring.
Qed.

(* A move of a sum of symmetric matrices is symmetric. *)
Lemma move_symmetric {Row I} (s : Row -> I -> R) t t' i j : (forall r, s r i = s r j) ->
  move s t t' i = move s t t' j.
Proof. intros H; unfold move, total; f_equal; apply sum_eq; intros; apply H. Qed.

(* -- full and diagonal covariances ------------------------------------------------------------------- *)

Inductive full_entry := Framed (e : nat * entry) | Other (b : nat).

Definition full_index (K B n : nat) : list full_entry :=
  map Framed (list_prod (upto K) (square n)) ++ map Other (upto B).

(* What a full covariance releases: upper triangles. *)
Definition full_released (K B n : nat) : list full_entry :=
  map Framed (list_prod (upto K) (upper n)) ++ map Other (upto B).

(* What a diagonal one releases: the first row and the diagonal of each matrix. *)
Definition first_row_and_diagonal (n : nat) : list entry :=
  filter (fun e => orb (Nat.eqb (fst e) 0) (Nat.eqb (fst e) (snd e))) (upper n).
Definition diag_released (K B n : nat) : list full_entry :=
  map Framed (list_prod (upto K) (first_row_and_diagonal n)) ++ map Other (upto B).

Definition full_moments {Row} (a : R) (g o : Row -> nat -> R) (M : Row -> nat -> entry -> R) (r : Row)
  (e : full_entry) : R :=
  match e with Framed (k, e) => g r k * M r k e | Other b => a * o r b end.

Definition full_noise (w : R) (e : full_entry) : R := match e with Framed (_, e) => beside w e | Other _ => 1 end.

Lemma full_dot Row a (g o : Row -> nat -> R) M K B n r r' :
  dot (full_index K B n) (full_moments a g o M r) (full_moments a g o M r')
  = sum (upto K) (fun k => g r k * g r' k * dot (square n) (M r k) (M r' k))
    + a * a * dot (upto B) (o r) (o r').
Proof.
  unfold dot at 1, full_index; rewrite sum_app, !sum_map, sum_list_prod; f_equal.
  - apply sum_eq; intros k; unfold dot; rewrite <- sum_scale; apply sum_eq; intros; cbn; ring.
  - unfold dot; rewrite <- sum_scale; apply sum_eq; intros; cbn; ring.
Qed.

Lemma full_bound K B (g o m : nat -> R) G C a : bounded_norm K B G g o -> 0 <= C -> 0 <= a <= C ->
  (forall k, m k <= C * C) ->
  sum (upto K) (fun k => g k * g k * m k) + a * a * dot (upto B) o o <= G * C * (G * C).
Proof.
  intros (P & Q & N) HC (A0 & A1) H.
  apply Rle_trans with (C * C * dot (upto K) g g + C * C * dot (upto B) o o).
  - apply Rplus_le_compat.
    + unfold dot; rewrite <- sum_scale; apply sum_le; intros k _; specialize (H k); specialize (P k).
      assert (0 <= g k * g k * (C * C - m k)) by (apply Rmult_le_pos; [nra | lra]); lra.
    + apply Rmult_le_compat_r; [apply dot_self | nra].
  - assert (0 <= C * C * (G * G - dot (upto K) g g - dot (upto B) o o))
      by (apply Rmult_le_pos; nra); nra.
Qed.

Theorem full_sensitivity Row a (g o : Row -> nat -> R) M K B n G C : 0 <= G -> 0 <= C -> 0 <= a <= C ->
  (forall r, bounded_norm K B G (g r) (o r)) ->
  (forall r k, dot (square n) (M r k) (M r k) <= C * C) ->
  (forall r r' k, 0 <= dot (square n) (M r k) (M r' k)) ->
  sensitivity AddRemove (full_moments a g o M) (norm (full_index K B n)) (G * C) /\
  sensitivity ReplaceOne (full_moments a g o M) (norm (full_index K B n)) (sqrt 2 * (G * C)).
Proof.
  intros HG HC A N H P; apply cone.
  - nra.
  - intros r; apply norm_le; [nra|]; rewrite full_dot; now apply full_bound.
  - intros r r'; rewrite full_dot; destruct (N r) as (N1 & N2 & _); destruct (N r') as (N1' & N2' & _).
    apply Rplus_le_le_0_compat.
    + apply sum_nonneg; intros k _; apply Rmult_le_pos; [now apply Rmult_le_pos | apply P].
    + apply Rmult_le_pos; [nra | now apply dot_nonneg].
Qed.

Lemma full_released_smaller Row a (g o : Row -> nat -> R) M K B n w t t' : noise_beside w ->
  (forall r k i j, M r k (i, j) = M r k (j, i)) ->
  norm (full_released K B n) (move (fun r e => full_moments a g o M r e / full_noise w e) t t')
  <= norm (full_index K B n) (move (full_moments a g o M) t t').
Proof.
  intros (W & H) S; apply sqrt_le_1_alt; unfold dot, full_released, full_index.
  rewrite !sum_app, !sum_map, !sum_list_prod; apply Rplus_le_compat.
  - apply sum_le; intros k _; set (x := fun e => move (full_moments a g o M) t t' (Framed (k, e))).
    rewrite (sum_eq (upper n) _ (fun e => x e / beside w e * (x e / beside w e)))
      by (intros; now rewrite move_relative).
    apply (upper_norm n w x W H); intros; unfold x; apply move_symmetric; intros; cbn; now rewrite S.
  - apply sum_le; intros b _; rewrite move_relative; cbn [full_noise]; unfold Rdiv; rewrite Rinv_1; lra.
Qed.

Lemma diag_released_smaller K B n (x : full_entry -> R) :
  norm (diag_released K B n) x <= norm (full_released K B n) x.
Proof.
  apply sqrt_le_1_alt; unfold dot, diag_released, full_released, first_row_and_diagonal.
  rewrite !sum_app, !sum_map, !sum_list_prod; apply Rplus_le_compat_r, sum_le; intros k _.
  rewrite sum_filter; apply sum_le; intros e _.
  pose proof (Rle_0_sqr (x (Framed (k, e)))) as Q; unfold Rsqr in Q; destruct (orb _ _); lra.
Qed.

(* What is released, relative to its noise. *)
Theorem full_released_sensitivity Row a (g o : Row -> nat -> R) M K B n w G C : noise_beside w ->
  0 <= G -> 0 <= C -> 0 <= a <= C ->
  (forall r, bounded_norm K B G (g r) (o r)) ->
  (forall r k i j, M r k (i, j) = M r k (j, i)) ->
  (forall r k, dot (square n) (M r k) (M r k) <= C * C) ->
  (forall r r' k, 0 <= dot (square n) (M r k) (M r' k)) ->
  let relative r e := full_moments a g o M r e / full_noise w e in
  forall index, index = full_released K B n \/ index = diag_released K B n ->
  sensitivity AddRemove relative (norm index) (G * C) /\
  sensitivity ReplaceOne relative (norm index) (sqrt 2 * (G * C)).
Proof.
  intros W HG HC A N S H P relative index I.
  destruct (full_sensitivity Row a g o M K B n G C HG HC A N H P) as (X & Y).
  assert (L : forall t t', norm index (move relative t t')
                           <= norm (full_index K B n) (move (full_moments a g o M) t t')).
  { intros t t'; destruct I as [-> | ->]; [now apply full_released_smaller|].
    eapply Rle_trans; [apply diag_released_smaller | now apply full_released_smaller]. }
  split; eapply sensitivity_of_smaller; eauto.
Qed.

(* -- spherical covariances ---------------------------------------------------------------------------- *)

Inductive spherical_entry := Weight (k : nat) | Mean (e : nat * nat) | Trace (k : nat) | Rest (b : nat).

Definition spherical_index (K B d : nat) : list spherical_entry :=
  map Weight (upto K) ++ map Mean (sums_index K d) ++ map Trace (upto K) ++ map Rest (upto B).

(* (s^2 g_k, s g_k z_k, g_k (|z_k|^2 + q_k))_k, where q_k is the trace of P for missing cells, otherwise 0. *)
Definition spherical_moments {Row} (a s : R) (g o : Row -> nat -> R) (z : Row -> nat -> nat -> R)
  (d : nat) (q : Row -> nat -> R) (r : Row) (e : spherical_entry) : R :=
  match e with
  | Weight k => g r k * (s * s)
  | Mean (k, j) => g r k * (s * z r k j)
  | Trace k => g r k * (dot (upto d) (z r k) (z r k) + q r k)
  | Rest b => a * o r b
  end.

Definition spherical_noise (w : R) (e : spherical_entry) : R := match e with Mean _ => w | _ => 1 end.

Theorem spherical_sensitivity Row a s (g o : Row -> nat -> R) z q K B d w G C : noise_beside w ->
  0 <= G -> 0 <= C -> 0 <= a <= C ->
  (forall r, bounded_norm K B G (g r) (o r)) -> (forall r k, 0 <= q r k) ->
  (forall r k, let A := dot (upto d) (z r k) (z r k) in
     s * s * (s * s) + 2 * (s * s) * A + (A + q r k) * (A + q r k) <= C * C) ->
  let relative r e := spherical_moments a s g o z d q r e / spherical_noise w e in
  sensitivity AddRemove relative (norm (spherical_index K B d)) (G * C) /\
  sensitivity ReplaceOne relative (norm (spherical_index K B d)) (sqrt 2 * (G * C)).
Proof.
  intros (W & HW) HG HC A N Q H relative.
  assert (V : 0 <= / (w * w) <= 2).
  { split; [left; apply Rinv_0_lt_compat; now apply Rmult_lt_0_compat|].
    replace 2 with (/ (1 / 2)) by field; apply Rinv_le_contravar; lra. }
  set (v := / (w * w)) in *.
  assert (D : forall r r', dot (spherical_index K B d) (relative r) (relative r')
    = sum (upto K) (fun k => g r k * g r' k *
        (s * s * (s * s) + v * (s * s) * dot (upto d) (z r k) (z r' k)
         + (dot (upto d) (z r k) (z r k) + q r k) * (dot (upto d) (z r' k) (z r' k) + q r' k)))
      + a * a * dot (upto B) (o r) (o r')).
  { intros r r'; unfold dot at 1, spherical_index, relative; rewrite !sum_app, !sum_map; unfold sums_index.
    rewrite sum_list_prod, <- !Rplus_assoc, <- !sum_plus; f_equal.
    - apply sum_eq; intros k; cbn [spherical_moments spherical_noise].
      replace (sum (upto d) _) with (g r k * g r' k * v * (s * s) * dot (upto d) (z r k) (z r' k))
        by (unfold dot; rewrite <- sum_scale; apply sum_eq; intros; unfold v; field; lra).
      field.
    - unfold dot; rewrite <- sum_scale; apply sum_eq; intros; cbn; field. }
  apply cone.
  - nra.
  - intros r; apply norm_le; [nra|]; rewrite D.
    apply full_bound; try easy; intros k; specialize (H r k); cbn in H.
    set (X := dot (upto d) (z r k) (z r k)) in *.
    assert (0 <= X) by apply dot_self; pose proof (Rle_0_sqr s) as S2; unfold Rsqr in S2.
    assert (0 <= (2 - v) * ((s * s) * X)) by (apply Rmult_le_pos; [lra | now apply Rmult_le_pos]); lra.
  - intros r r'; rewrite D; destruct (N r) as (N1 & N2 & _); destruct (N r') as (N1' & N2' & _).
    apply Rplus_le_le_0_compat; [|apply Rmult_le_pos; [nra | now apply dot_nonneg]].
    apply sum_nonneg; intros k _; apply Rmult_le_pos; [now apply Rmult_le_pos|].
    pose proof (cauchy_schwarz (upto d) (z r k) (z r' k)) as CS.
    pose proof (Q r k) as Q1; pose proof (Q r' k) as Q2.
    pose proof (dot_self (upto d) (z r k)) as X0; pose proof (dot_self (upto d) (z r' k)) as Y0.
    set (t := dot (upto d) (z r k) (z r' k)) in *; set (X := dot (upto d) (z r k) (z r k)) in *.
    set (Y := dot (upto d) (z r' k) (z r' k)) in *.
    (* |z||z'| >= |t|, and s^4 + v s^2 t + t^2 >= 0 for 0 <= v <= 2. *)
    assert (T : t * t <= (X + q r k) * (Y + q r' k)) by nra.
    pose proof (Rle_0_sqr (s * s + t)) as S1; pose proof (Rle_0_sqr (s * s)) as S2; unfold Rsqr in S1, S2.
    assert (0 <= s * s) by nra.
    destruct (Rle_dec 0 t) as [P|P].
    + assert (0 <= v * (s * s) * t) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | lra]).
      pose proof (Rle_0_sqr t) as S3; unfold Rsqr in S3; lra.
    + assert (0 <= (2 - v) * (s * s) * - t) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | lra]); lra.
Qed.

(* -- tied covariances ----------------------------------------------------------------------------------- *)

(* First rows and first columns of all components, one shared matrix, and other components. *)
Inductive tied_entry :=
  Head (k : nat) | InRow (e : nat * nat) | InColumn (e : nat * nat) | Shared (e : entry) | Apart (b : nat).

Definition tied_index (K B d : nat) : list tied_entry :=
  map Head (upto K) ++ map InRow (sums_index K d) ++ map InColumn (sums_index K d)
  ++ map Shared (square d) ++ map Apart (upto B).

Definition tied_released (K B d : nat) : list tied_entry :=
  map Head (upto K) ++ map InRow (sums_index K d) ++ map Shared (upper d) ++ map Apart (upto B).

Definition tied_moments {Row} (a s : R) (g o : Row -> nat -> R) (z : Row -> nat -> nat -> R)
  (M : Row -> nat -> entry -> R) (K : nat) (r : Row) (e : tied_entry) : R :=
  match e with
  | Head k => g r k * (s * s)
  | InRow (k, j) | InColumn (k, j) => g r k * (s * z r k j)
  | Shared e => sum (upto K) (fun k => g r k * M r k e)
  | Apart b => a * o r b
  end.

Definition tied_noise (w : R) (e : tied_entry) : R :=
  match e with InRow _ => w | Shared e => beside w e | _ => 1 end.

Lemma tied_dot Row a s (g o : Row -> nat -> R) z M K B d r r' :
  dot (tied_index K B d) (tied_moments a s g o z M K r) (tied_moments a s g o z M K r')
  = sum (upto K) (fun k => g r k * g r' k *
      (s * s * (s * s) + 2 * (s * s) * dot (upto d) (z r k) (z r' k)))
    + sum (upto K) (fun k => sum (upto K) (fun l => g r k * g r' l * dot (square d) (M r k) (M r' l)))
    + a * a * dot (upto B) (o r) (o r').
Proof.
  unfold dot at 1, tied_index; rewrite !sum_app, !sum_map; unfold sums_index; rewrite !sum_list_prod.
  cbn [tied_moments].
  assert (E : forall k, sum (upto d) (fun j => g r k * (s * z r k j) * (g r' k * (s * z r' k j)))
                        = g r k * g r' k * ((s * s) * dot (upto d) (z r k) (z r' k)))
    by (intros; unfold dot; rewrite <- !sum_scale; apply sum_eq; intros; ring).
  rewrite !(sum_eq (upto K) (fun k => sum (upto d) _) _ E).
  assert (S : sum (square d) (fun e => sum (upto K) (fun k => g r k * M r k e)
                                       * sum (upto K) (fun k => g r' k * M r' k e))
    = sum (upto K) (fun k => sum (upto K) (fun l => g r k * g r' l * dot (square d) (M r k) (M r' l)))).
  { rewrite (sum_eq (square d) _ (fun e => sum (upto K) (fun k => sum (upto K) (fun l =>
      g r k * M r k e * (g r' l * M r' l e))))) by (intros; now rewrite sum_product).
    rewrite sum_swap; apply sum_eq; intros k; rewrite sum_swap; apply sum_eq; intros l.
    unfold dot; rewrite <- sum_scale; apply sum_eq; intros; ring. }
  rewrite S; clear S E.
  replace (sum (upto B) _) with (a * a * dot (upto B) (o r) (o r'))
    by (unfold dot; rewrite <- sum_scale; apply sum_eq; intros; ring).
  rewrite <- !Rplus_assoc; f_equal; f_equal; rewrite <- !sum_plus; apply sum_eq; intros; ring.
Qed.

(* The bound of the text: |sum_k g_k w_k| <= C sum_k g_k if |w_k|^2 = u_k + m_k^2 <= C^2. *)
Lemma tied_sum (l : list nat) (g u m : nat -> R) C : 0 <= C -> (forall k, 0 <= g k) -> (forall k, 0 <= m k) ->
  (forall k, 0 <= u k) -> (forall k, u k + m k * m k <= C * C) ->
  sum l (fun k => g k * g k * u k) + sum l (fun k => g k * m k) * sum l (fun k => g k * m k)
  <= C * sum l g * (C * sum l g).
Proof.
  intros HC G M U H; induction l as [|k l IH]; cbn [sum]; [lra|].
  assert (B : 0 <= sum l (fun k => g k * m k)) by (apply sum_nonneg; intros; now apply Rmult_le_pos).
  assert (S : 0 <= sum l g) by (apply sum_nonneg; auto).
  assert (mC : forall k, m k <= C) by (intros j; specialize (H j); specialize (M j); specialize (U j); nra).
  assert (L : sum l (fun k => g k * m k) <= C * sum l g).
  { rewrite <- sum_scale; apply sum_le; intros j _; rewrite (Rmult_comm C); apply Rmult_le_compat_l; auto. }
  specialize (H k); specialize (G k); specialize (M k); specialize (mC k).
  set (b := sum l (fun k => g k * m k)) in *; set (S1 := sum l g) in *.
  set (A := sum l (fun k => g k * g k * u k)) in *.
  assert (0 <= g k * g k * (C * C - u k - m k * m k)) by (apply Rmult_le_pos; [nra | lra]).
  assert (g k * m k * b <= g k * C * (C * S1))
    by (apply Rmult_le_compat; [now apply Rmult_le_pos | easy | now apply Rmult_le_compat_l | easy]).
  nra.
Qed.

Theorem tied_sensitivity Row a s (g o : Row -> nat -> R) z M K B d G C : 0 <= G -> 0 <= C -> 0 <= a <= C ->
  (forall r, bounded_sum K B G (g r) (o r)) ->
  (forall r k, s * s * (s * s) + 2 * (s * s) * dot (upto d) (z r k) (z r k)
               + dot (square d) (M r k) (M r k) <= C * C) ->
  (forall r r' k l, dot (upto d) (z r k) (z r' l) * dot (upto d) (z r k) (z r' l)
                    <= dot (square d) (M r k) (M r' l)) ->
  sensitivity AddRemove (tied_moments a s g o z M K) (norm (tied_index K B d)) (G * C) /\
  sensitivity ReplaceOne (tied_moments a s g o z M K) (norm (tied_index K B d)) (sqrt 2 * (G * C)).
Proof.
  intros HG HC (A0 & A1) N H P.
  assert (P0 : forall r r' k l, 0 <= dot (square d) (M r k) (M r' l))
    by (intros; eapply Rle_trans; [apply Rle_0_sqr | apply P]).
  apply cone; [nra | |].
  - intros r; destruct (N r) as (G0 & O0 & S); apply norm_le; [nra|]; rewrite tied_dot.
    set (m := fun k => norm (square d) (M r k)).
    set (u := fun k => s * s * (s * s) + 2 * (s * s) * dot (upto d) (z r k) (z r k)).
    assert (X : sum (upto K) (fun k => sum (upto K) (fun l => g r k * g r l * dot (square d) (M r k) (M r l)))
                <= sum (upto K) (fun k => g r k * m k) * sum (upto K) (fun k => g r k * m k)).
    { rewrite sum_product; apply sum_le; intros k _; apply sum_le; intros l _.
      replace (g r k * m k * (g r l * m l)) with (g r k * g r l * (m k * m l)) by ring.
      apply Rmult_le_compat_l; [now apply Rmult_le_pos|].
      eapply Rle_trans; [apply Rle_abs | apply dot_norms]. }
    assert (Y : sum (upto K) (fun k => g r k * g r k * u k)
                + sum (upto K) (fun k => g r k * m k) * sum (upto K) (fun k => g r k * m k)
                <= C * sum (upto K) (g r) * (C * sum (upto K) (g r))).
    { apply tied_sum; auto; [intros; apply norm_nonneg | |].
      - intros k; unfold u; pose proof (Rle_0_sqr s) as S2; pose proof (dot_self (upto d) (z r k)) as D.
        unfold Rsqr in S2; assert (0 <= s * s * dot (upto d) (z r k) (z r k)) by now apply Rmult_le_pos.
        assert (0 <= s * s * (s * s)) by now apply Rmult_le_pos. lra.
      - intros k; unfold u, m; rewrite norm_squared; apply H. }
    pose proof (sum_of_squares (upto B) (o r) (fun b _ => O0 b)) as Z.
    change (sum (upto B) (fun b => o r b * o r b)) with (dot (upto B) (o r) (o r)) in Z.
    assert (0 <= sum (upto K) (g r)) by (apply sum_nonneg; auto).
    assert (0 <= sum (upto B) (o r)) by (apply sum_nonneg; auto).
    pose proof (dot_self (upto B) (o r)) as Z0.
    set (sg := sum (upto K) (g r)) in *; set (so := sum (upto B) (o r)) in *.
    assert (a * a * dot (upto B) (o r) (o r) <= C * C * (so * so)) by (apply Rmult_le_compat; nra).
    assert (C * C * (sg * sg + so * so) <= C * C * (G * G)) by (apply Rmult_le_compat_l; nra).
    unfold u in Y; lra.
  - intros r r'; destruct (N r) as (G0 & O0 & _); destruct (N r') as (G0' & O0' & _); rewrite tied_dot.
    apply Rplus_le_le_0_compat; [|apply Rmult_le_pos; [nra | now apply dot_nonneg]].
    (* The terms with k <> l are not negative. *)
    apply Rle_trans with (sum (upto K) (fun k => g r k * g r' k *
        ((s * s + dot (upto d) (z r k) (z r' k)) * (s * s + dot (upto d) (z r k) (z r' k))))).
    { apply sum_nonneg; intros; apply Rmult_le_pos; [now apply Rmult_le_pos | apply Rle_0_sqr]. }
    rewrite <- sum_plus; apply sum_le; intros k I.
    assert (g r k * g r' k * dot (square d) (M r k) (M r' k)
            <= sum (upto K) (fun l => g r k * g r' l * dot (square d) (M r k) (M r' l))) as T.
    { apply (sum_term (upto K) (fun l => g r k * g r' l * dot (square d) (M r k) (M r' l))); [|easy].
      intros; apply Rmult_le_pos; [now apply Rmult_le_pos | apply P0]. }
    specialize (P r r' k k); set (t := dot (upto d) (z r k) (z r' k)) in *.
    assert (0 <= g r k * g r' k) by now apply Rmult_le_pos.
    assert (g r k * g r' k * (t * t) <= g r k * g r' k * dot (square d) (M r k) (M r' k))
      by now apply Rmult_le_compat_l.
    lra.
Qed.

Theorem tied_released_sensitivity Row a s (g o : Row -> nat -> R) z M K B d w G C : noise_beside w ->
  0 <= G -> 0 <= C -> 0 <= a <= C ->
  (forall r, bounded_sum K B G (g r) (o r)) ->
  (forall r k i j, M r k (i, j) = M r k (j, i)) ->
  (forall r k, s * s * (s * s) + 2 * (s * s) * dot (upto d) (z r k) (z r k)
               + dot (square d) (M r k) (M r k) <= C * C) ->
  (forall r r' k l, dot (upto d) (z r k) (z r' l) * dot (upto d) (z r k) (z r' l)
                    <= dot (square d) (M r k) (M r' l)) ->
  let relative r e := tied_moments a s g o z M K r e / tied_noise w e in
  sensitivity AddRemove relative (norm (tied_released K B d)) (G * C) /\
  sensitivity ReplaceOne relative (norm (tied_released K B d)) (sqrt 2 * (G * C)).
Proof.
  intros W HG HC A N S H P relative.
  destruct (tied_sensitivity Row a s g o z M K B d G C HG HC A N H P) as (X & Y).
  assert (L : forall t t', norm (tied_released K B d) (move relative t t')
                           <= norm (tied_index K B d) (move (tied_moments a s g o z M K) t t')).
  { intros t t'; apply sqrt_le_1_alt; unfold dot, tied_released, tied_index, relative.
    set (x := move (tied_moments a s g o z M K) t t').
    rewrite !sum_app, !sum_map.
    assert (E : forall {A} (l : list A) f, sum l (fun i => move
        (fun r e => tied_moments a s g o z M K r e / tied_noise w e) t t' (f i) *
        move (fun r e => tied_moments a s g o z M K r e / tied_noise w e) t t' (f i))
      = sum l (fun i => x (f i) / tied_noise w (f i) * (x (f i) / tied_noise w (f i))))
      by (intros; apply sum_eq; intros; now rewrite move_relative).
    rewrite !E; cbn [tied_noise].
    assert (sum (sums_index K d) (fun e => x (InRow e) / w * (x (InRow e) / w))
            <= sum (sums_index K d) (fun e => x (InRow e) * x (InRow e))
               + sum (sums_index K d) (fun e => x (InColumn e) * x (InColumn e))) as F.
    { rewrite <- sum_plus; apply sum_le; intros (k, j) _.
      pose proof (beside_square w (x (InRow (k, j))) W).
      replace (x (InColumn (k, j))) with (x (InRow (k, j))) by reflexivity; lra. }
    assert (sum (upper d) (fun e => x (Shared e) / beside w e * (x (Shared e) / beside w e))
            <= sum (square d) (fun e => x (Shared e) * x (Shared e))) as T.
    { apply (upper_norm d w (fun e => x (Shared e))); try apply W; intros i j.
      apply move_symmetric; intros; cbn; apply sum_eq; intros; now rewrite S. }
    assert (forall y, y / 1 = y) as One by (intros; unfold Rdiv; rewrite Rinv_1; ring).
    rewrite (sum_eq (upto K) (fun i => x (Head i) / 1 * _) (fun i => x (Head i) * x (Head i)))
      by (intros; now rewrite One).
    rewrite (sum_eq (upto B) (fun i => x (Apart i) / 1 * _) (fun i => x (Apart i) * x (Apart i)))
      by (intros; now rewrite One).
    lra. }
  split; eapply sensitivity_of_smaller; eauto.
Qed.

(* (S-4) Counts, sums and second moments in one release. The row adds (a g_k, b g_k u, c g_k uu')_k with weights
   a, b, c >= 0 and |u| <= 1. The sensitivity is sqrt (a^2 + b^2 + c^2) under add/remove. Under replace-one it
   is the square root of the larger of 2 (a^2 + b^2 + c^2) and w, where w = 2 b^2 + 2 c^2 + b^4 / (2 c^2) if
   0 < b^2 <= 2 c^2, and w = 4 b^2 otherwise. If 4 a^2 c^2 >= b^4, the first is the larger. With c = 0 the
   sensitivity under replace-one is the larger of sqrt 2 sqrt (a^2 + b^2) and 2 b. Each number is reached.

   Relied on by: `joint` of src/dpem/privacy/sensitivity.py, `Sums` and `RelativeSums` of
   src/dpem/statistics/simple.py. *)
From DPEM Require Import Tables S01_Counts S02_Sums Matrices S03_SecondMoments.

Inductive joint_entry := Count (k : nat) | Sum (e : nat * nat) | Moment (e : nat * entry).

Definition joint_index (K d : nat) : list joint_entry :=
  map Count (upto K) ++ map Sum (sums_index K d) ++ map Moment (moments_index K d).

Definition joint {Row} (a b c : R) (g u : Row -> nat -> R) (r : Row) (e : joint_entry) : R :=
  match e with
  | Count k => a * g r k
  | Sum e => b * weighted_sums g u r e
  | Moment e => c * second_moments g u r e
  end.

(* h of the text: the inner product of two rows in one component, with t = u . v. *)
Definition h (a b c t : R) : R := a * a + b * b * t + c * c * (t * t).

(* The second number of the claim. *)
Definition within (b c : R) : R :=
  if Rlt_dec 0 (b * b)
  then if Rle_dec (b * b) (2 * (c * c))
       then 2 * (b * b) + 2 * (c * c) + b * b * (b * b) / (2 * (c * c))
       else 4 * (b * b)
  else 4 * (b * b).

Lemma joint_dot Row a b c (g u : Row -> nat -> R) K d r r' :
  dot (joint_index K d) (joint a b c g u r) (joint a b c g u r')
  = dot (upto K) (g r) (g r') * h a b c (dot (upto d) (u r) (u r')).
Proof.
  unfold dot at 1, joint_index; rewrite !sum_app, !sum_map; cbn [joint].
  replace (sum (upto K) _) with (a * a * dot (upto K) (g r) (g r'))
    by (unfold dot; rewrite <- sum_scale; apply sum_eq; intros; ring).
  replace (sum (sums_index K d) _) with
    (b * b * dot (sums_index K d) (weighted_sums g u r) (weighted_sums g u r'))
    by (unfold dot; rewrite <- sum_scale; apply sum_eq; intros; ring).
  replace (sum (moments_index K d) _) with
    (c * c * dot (moments_index K d) (second_moments g u r) (second_moments g u r'))
    by (unfold dot; rewrite <- sum_scale; apply sum_eq; intros; ring).
  rewrite sums_dot, moments_dot; unfold h; ring.
Qed.

(* Case 2 of the text. P = |u|^2 and Q = |v|^2 are at most 1, and t is at least -1. *)
Lemma one_component b c P Q t : 0 <= P <= 1 -> 0 <= Q <= 1 -> -1 <= t ->
  b * b * (P + Q - 2 * t) + c * c * (P * P + Q * Q - 2 * (t * t)) <= within b c \/
  0 <= b * b * t + c * c * (t * t).
Proof.
  intros (P0 & P1) (Q0 & Q1) T.
  pose proof (Rle_0_sqr b) as B; pose proof (Rle_0_sqr c) as C; unfold Rsqr in B, C.
  assert (P2 : P * P <= 1) by nra; assert (Q2 : Q * Q <= 1) by nra.
  (* P and Q are at most 1. *)
  assert (F : b * b * (P + Q - 2 * t) + c * c * (P * P + Q * Q - 2 * (t * t))
              <= 2 * (b * b) * (1 - t) + 2 * (c * c) * (1 - t * t)).
  { assert (0 <= b * b * (2 - P - Q)) by (apply Rmult_le_pos; lra).
    assert (0 <= c * c * (2 - P * P - Q * Q)) by (apply Rmult_le_pos; lra); lra. }
  unfold within; set (b2 := b * b) in *; set (c2 := c * c) in *.
  destruct (Rlt_dec 0 b2) as [B0|B0]; [destruct (Rle_dec b2 (2 * c2)) as [L|L]|].
  - left; eapply Rle_trans; [exact F|].
    (* The maximum over t is at t = -b^2 / (2 c^2): complete the square. *)
    assert (0 <= (b2 + 2 * c2 * t) * (b2 + 2 * c2 * t) / (2 * c2)) as S.
    { apply Rmult_le_pos; [apply Rle_0_sqr | left; apply Rinv_0_lt_compat; lra]. }
    replace ((b2 + 2 * c2 * t) * (b2 + 2 * c2 * t) / (2 * c2))
      with (b2 * b2 / (2 * c2) + 2 * b2 * t + 2 * c2 * (t * t)) in S by (field; lra).
    lra.
  - destruct (Rle_dec t 0) as [N|N]; [left; eapply Rle_trans; [exact F|] | right].
    + (* 4 b^2 - F = 2 (1 + t) (b^2 - c^2 (1 - t)) *)
      assert (0 <= (1 + t) * (b2 - c2 * (1 - t))) by (apply Rmult_le_pos; [lra | nra]); lra.
    + assert (0 <= b2 * t) by nra; assert (0 <= c2 * (t * t)) by nra; lra.
  - right; assert (b2 = 0) as -> by lra; assert (0 <= c2 * (t * t)) by nra; lra.
Qed.

(* The square of the sensitivity under replace-one. *)
Definition worst (a b c : R) : R := Rmax (2 * (a * a + b * b + c * c)) (within b c).

Section TwoRows.
Context {Row : Type} (g u : Row -> nat -> R) (K d : nat) (a b c : R).
Hypothesis G : forall r, responsibilities K (g r).
Hypothesis U : forall r, norm (upto d) (u r) <= 1.

Lemma square_of_row r : 0 <= dot (upto d) (u r) (u r) <= 1.
Proof. split; [apply dot_self|]; pose proof (dot_le _ _ _ (U r)); lra. Qed.

Lemma largest_A r : h a b c (dot (upto d) (u r) (u r)) <= a * a + b * b + c * c.
Proof.
  destruct (square_of_row r) as (L & M); unfold h; set (P := dot (upto d) (u r) (u r)) in *.
  pose proof (Rle_0_sqr b) as B; pose proof (Rle_0_sqr c) as C; unfold Rsqr in B, C.
  assert (0 <= b * b * (1 - P)) by (apply Rmult_le_pos; lra).
  assert (0 <= c * c * (1 - P * P)) by (apply Rmult_le_pos; nra); lra.
Qed.

Lemma A_nonneg r : 0 <= h a b c (dot (upto d) (u r) (u r)).
Proof.
  destruct (square_of_row r) as (L & M); unfold h; set (P := dot (upto d) (u r) (u r)) in *.
  pose proof (Rle_0_sqr a) as A; pose proof (Rle_0_sqr b) as B; pose proof (Rle_0_sqr c) as C.
  unfold Rsqr in A, B, C; assert (0 <= b * b * P) by (apply Rmult_le_pos; lra).
  assert (0 <= c * c * (P * P)) by (apply Rmult_le_pos; nra); lra.
Qed.

Lemma two_rows r r' :
  dot (joint_index K d) (fun e => joint a b c g u r e - joint a b c g u r' e)
      (fun e => joint a b c g u r e - joint a b c g u r' e) <= worst a b c.
Proof.
  rewrite dot_minus, !joint_dot.
  pose proof (responsibilities_norm K _ (G r)) as N; pose proof (responsibilities_norm K _ (G r')) as N'.
  destruct (responsibilities_dot K _ _ (G r) (G r')) as (D0 & D1).
  pose proof (largest_A r) as A1; pose proof (largest_A r') as A1'.
  pose proof (A_nonneg r) as A0; pose proof (A_nonneg r') as A0'.
  pose proof (dot_self (upto K) (g r)) as S; pose proof (dot_self (upto K) (g r')) as S'.
  destruct (square_of_row r) as (P0 & P1); destruct (square_of_row r') as (Q0 & Q1).
  set (P := dot (upto d) (u r) (u r)) in *; set (Q := dot (upto d) (u r') (u r')) in *.
  set (t := dot (upto d) (u r) (u r')) in *.
  assert (T : -1 <= t).
  { pose proof (dot_self (upto d) (fun i => - u r i - u r' i)) as V; rewrite dot_minus in V.
    replace (dot (upto d) (fun i => - u r i) (fun i => - u r i)) with P in V
      by (apply sum_eq; intros; ring).
    replace (dot (upto d) (fun i => - u r i) (u r')) with (-1 * t) in V
      by (unfold t, dot; rewrite <- sum_scale; apply sum_eq; intros; ring).
    fold Q in V; lra. }
  set (A := h a b c P) in *; set (A' := h a b c Q) in *; set (n := dot (upto K) (g r) (g r)) in *.
  set (n' := dot (upto K) (g r') (g r')) in *; set (m := dot (upto K) (g r) (g r')) in *.
  assert (n * A <= A) by nra; assert (n' * A' <= A') by nra.
  destruct (Rle_dec 0 (h a b c t)) as [Case|Case].
  - (* Case 1: the last term lowers the distance. *)
    apply Rle_trans with (2 * (a * a + b * b + c * c)); [|apply Rmax_l].
    assert (0 <= m * h a b c t) by (apply Rmult_le_pos; lra); lra.
  - (* Case 2: a single component is the worst. *)
    assert (- h a b c t * m <= - h a b c t * 1) by (apply Rmult_le_compat_l; lra).
    pose proof (Rle_0_sqr a) as A2; unfold Rsqr in A2.
    destruct (one_component b c P Q t) as [F|F]; [lra | lra | lra | |].
    + apply Rle_trans with (within b c); [|apply Rmax_r].
      assert (A + A' - 2 * h a b c t
              = b * b * (P + Q - 2 * t) + c * c * (P * P + Q * Q - 2 * (t * t)))
        by (unfold A, A', h; ring); lra.
    + exfalso; apply Case; unfold h; lra.
Qed.

Lemma one_row r : norm (joint_index K d) (joint a b c g u r) <= sqrt (a * a + b * b + c * c).
Proof.
  apply sqrt_le_1_alt; rewrite joint_dot.
  pose proof (responsibilities_norm K _ (G r)); pose proof (largest_A r); pose proof (A_nonneg r).
  pose proof (dot_self (upto K) (g r)); nra.
Qed.
End TwoRows.

Theorem S4_joint Row (g u : Row -> nat -> R) K d a b c : (forall r, responsibilities K (g r)) ->
  (forall r, norm (upto d) (u r) <= 1) ->
  sensitivity AddRemove (joint a b c g u) (norm (joint_index K d)) (sqrt (a * a + b * b + c * c)) /\
  sensitivity ReplaceOne (joint a b c g u) (norm (joint_index K d)) (sqrt (worst a b c)).
Proof.
  intros G U; split.
  - apply add_remove_of_rows; [apply norm_seminorm|]; intros; now apply one_row.
  - apply replace_one_of_rows; [apply norm_seminorm|]; intros; now apply sqrt_le_1_alt, two_rows.
Qed.

(* If 4 a^2 c^2 >= b^4, the first number is the larger. *)
Theorem S4_condition a b c : b * b * (b * b) <= 4 * (a * a) * (c * c) ->
  within b c <= 2 * (a * a + b * b + c * c).
Proof.
  intros H; unfold within.
  pose proof (Rle_0_sqr a) as A; pose proof (Rle_0_sqr b) as B; pose proof (Rle_0_sqr c) as C.
  unfold Rsqr in A, B, C; set (a2 := a * a) in *; set (b2 := b * b) in *; set (c2 := c * c) in *.
  destruct (Rlt_dec 0 b2) as [P|P]; [destruct (Rle_dec b2 (2 * c2)) as [L|L]|].
  - enough (b2 * b2 / (2 * c2) <= 2 * a2) by lra.
    apply Rmult_le_reg_r with (2 * c2); [lra|].
    replace (b2 * b2 / (2 * c2) * (2 * c2)) with (b2 * b2) by (field; lra); lra.
  - enough (b2 <= a2 + c2) by lra; nra.
  - assert (b2 = 0) by lra; lra.
Qed.

(* With c = 0: counts and sums. *)
Theorem S4_counts_and_sums Row (g u : Row -> nat -> R) K d a b : 0 <= b ->
  (forall r, responsibilities K (g r)) -> (forall r, norm (upto d) (u r) <= 1) ->
  sensitivity ReplaceOne (joint a b 0 g u) (norm (joint_index K d))
    (Rmax (sqrt 2 * sqrt (a * a + b * b)) (2 * b)).
Proof.
  intros B G U t t' N; eapply Rle_trans; [exact (proj2 (S4_joint Row g u K d a b 0 G U) t t' N)|].
  assert (0 <= b * b) by nra; assert (0 <= a * a) by nra.
  assert (W : within b 0 = 4 * (b * b))
    by (unfold within; destruct (Rlt_dec 0 (b * b)); [destruct Rle_dec; lra | reflexivity]).
  unfold worst; rewrite W; apply Rmax_case_strong; intros _.
  - eapply Rle_trans; [|apply Rmax_l]; rewrite <- sqrt_mult by lra; apply sqrt_le_1_alt; lra.
  - eapply Rle_trans; [|apply Rmax_r]; replace (4 * (b * b)) with (2 * b * (2 * b)) by ring.
    rewrite sqrt_square; lra.
Qed.

(* Both numbers are reached: the first by disjoint responsibilities and rows of norm 1, the second within one
   component by rows of norm 1 at an angle. *)
Theorem S4_reached_by_two_components : forall K a b c, (2 <= K)%nat ->
  let s := joint a b c vertex (fun _ _ => 1) in
  reached AddRemove s (norm (joint_index K 1)) (sqrt (a * a + b * b + c * c)) /\
  reached ReplaceOne s (norm (joint_index K 1)) (sqrt 2 * sqrt (a * a + b * b + c * c)).
Proof.
  intros K a b c H s; assert (0 <= a * a + b * b + c * c) by nra.
  apply (reached_by_rows _ s 0%nat 1%nat); [apply sqrt_pos | | |];
    unfold s; rewrite joint_dot, vertex_dot by lia; rewrite ?sqrt_sqrt by easy;
    unfold dot, vertex, h; cbn; ring.
Qed.

(* Unit vectors (1, 0) and (t, sqrt (1 - t^2)). *)
Definition at_angle (t : R) (r : bool) (j : nat) : R :=
  match r, j with
  | true, O => 1
  | false, O => t
  | false, S O => sqrt (1 - t * t)
  | _, _ => 0
  end.

Theorem S4_reached_within_a_component : forall a b c, 0 < c \/ 0 < b -> 0 <= b -> 0 <= c ->
  exists t, -1 <= t <= 1 /\
    reached ReplaceOne (joint a b c (fun _ => vertex 0) (at_angle t)) (norm (joint_index 1 2)) (sqrt (within b c)).
Proof.
  intros a b c P B C.
  assert (M : forall t, -1 <= t <= 1 ->
    2 * (b * b) * (1 - t) + 2 * (c * c) * (1 - t * t) = within b c ->
    reached ReplaceOne (joint a b c (fun _ => vertex 0) (at_angle t)) (norm (joint_index 1 2)) (sqrt (within b c))).
  { intros t T E; exists [true], [false]; split; [now apply row_replaced with true false []|].
    set (s := joint a b c (fun _ => vertex 0) (at_angle t)).
    rewrite (norm_eq _ _ (fun i => s true i - s false i)) by (intros; unfold move, total; cbn; ring).
    unfold norm; f_equal; rewrite <- E; unfold s.
    assert (Q : sqrt (1 - t * t) * sqrt (1 - t * t) = 1 - t * t) by (apply sqrt_sqrt; nra).
    rewrite dot_minus, !joint_dot, !vertex_dot by lia; unfold h.
    assert (dot (upto 2) (at_angle t true) (at_angle t true) = 1) as -> by (unfold dot; cbn; ring).
    assert (dot (upto 2) (at_angle t false) (at_angle t false) = 1) as -> by (unfold dot; cbn; rewrite Q; ring).
    assert (dot (upto 2) (at_angle t true) (at_angle t false) = t) as -> by (unfold dot; cbn; ring).
    unfold vertex; cbn; ring. }
  unfold within in *; assert (0 <= b * b) by nra; assert (0 <= c * c) by nra.
  destruct (Rlt_dec 0 (b * b)) as [B0|B0]; [destruct (Rle_dec (b * b) (2 * (c * c))) as [L|L]|].
  - exists (- (b * b) / (2 * (c * c))).
    assert (c0 : 0 < c * c) by lra.
    assert (0 <= b * b / (2 * (c * c)) <= 1) as R.
    { split; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]|].
      apply Rmult_le_reg_r with (2 * (c * c)); [lra|].
      replace (b * b / (2 * (c * c)) * (2 * (c * c))) with (b * b) by (field; nra); lra. }
    assert (T : -1 <= - (b * b) / (2 * (c * c)) <= 1)
      by (replace (- (b * b) / (2 * (c * c))) with (- (b * b / (2 * (c * c)))) by (field; nra); lra).
    split; [exact T|]; apply M; [exact T|]; field; nra.
  - exists (-1); split; [lra|]; apply M; lra.
  - exists 1; split; [lra|]; apply M; lra.
Qed.

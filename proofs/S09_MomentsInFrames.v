(* (S-9) Moments in frames. Component k has a released centre and factor. A row's place in this frame is z_k with
   |z_k| <= tau. Let psi_k = (s, z_k) and C = s^2 + tau^2, so that |psi_k|^2 <= C. The row adds
   (g_k psi_k psi_k')_k. Components without moments add (a g_b)_b beside it, with a <= C. The sensitivity is
   C, and sqrt 2 C if a row is replaced, for all four kinds of covariance and any number of components.
   In integers, psi has 13 bits and g has 16, so that it is 2^42.

   The theorems are about what is released, relative to its noise: upper triangles with noise 1 on the
   diagonal and w >= 1/sqrt 2 beside it. G bounds the norm (tied: the sum) of responsibilities; G = 1 on
   real numbers, and 2^16 in integers.

   Relied on by: `FrameMoments` of src/dpem/statistics/gaussian.py and its kernels. *)
From DPEM Require Import Tables S01_Counts S02_Sums Matrices Moments Constants.

(* psi = (s, z): entry 0 is s. *)
Definition psi (s : R) (z : nat -> R) (i : nat) : R := match i with O => s | S j => z j end.

Lemma psi_dot d s s' z z' : dot (upto (S d)) (psi s z) (psi s' z') = s * s' + dot (upto d) z z'.
Proof. unfold dot, upto; cbn [seq sum psi]; now rewrite <- seq_shift, sum_map. Qed.

Section Integers.
(* Rows of integers, as the code checks them: |psi|^2 <= C and sum g^2 <= G^2 (tied: sum g <= G). *)
Context {Row : Type} (s : R) (z : Row -> nat -> nat -> R) (g o : Row -> nat -> R) (K B d : nat) (w a G C : R).

Definition frame_matrix (r : Row) (k : nat) : entry -> R := outer (psi s (z r k)).

Lemma frame_norm r k : s * s + dot (upto d) (z r k) (z r k) <= C ->
  dot (square (S d)) (frame_matrix r k) (frame_matrix r k) <= C * C.
Proof.
  intros H; unfold frame_matrix; rewrite outer_dot, psi_dot.
  pose proof (dot_self (upto d) (z r k)); assert (0 <= s * s) by nra; nra.
Qed.

Lemma frame_cone r r' k : 0 <= dot (square (S d)) (frame_matrix r k) (frame_matrix r' k).
Proof. unfold frame_matrix; rewrite outer_dot; apply Rle_0_sqr. Qed.

Theorem S9_checked_full_and_diag : noise_beside w -> 0 <= G -> 0 <= a <= C ->
  (forall r, bounded_norm K B G (g r) (o r)) ->
  (forall r k, s * s + dot (upto d) (z r k) (z r k) <= C) ->
  let relative r e := full_moments a g o frame_matrix r e / full_noise w e in
  forall index, index = full_released K B (S d) \/ index = diag_released K B (S d) ->
  sensitivity AddRemove relative (norm index) (G * C) /\
  sensitivity ReplaceOne relative (norm index) (sqrt 2 * (G * C)).
Proof.
  intros W HG A N H; apply full_released_sensitivity; try easy; try lra.
  - intros; unfold frame_matrix, outer; cbn; ring.
  - intros; now apply frame_norm.
  - apply frame_cone.
Qed.

Theorem S9_checked_spherical : noise_beside w -> 0 <= G -> 0 <= a <= C ->
  (forall r, bounded_norm K B G (g r) (o r)) ->
  (forall r k, s * s + dot (upto d) (z r k) (z r k) <= C) ->
  let relative r e := spherical_moments a s g o z d (fun _ _ => 0) r e / spherical_noise w e in
  sensitivity AddRemove relative (norm (spherical_index K B d)) (G * C) /\
  sensitivity ReplaceOne relative (norm (spherical_index K B d)) (sqrt 2 * (G * C)).
Proof.
  intros W HG A N H; apply spherical_sensitivity; try easy; try lra; [intros; lra|].
  intros r k X; specialize (H r k); fold X in H; assert (0 <= X) by apply dot_self; assert (0 <= s * s) by nra.
  assert ((s * s + X) * (s * s + X) <= C * C) by (apply Rmult_le_compat; lra); lra.
Qed.

Theorem S9_checked_tied : noise_beside w -> 0 <= G -> 0 <= a <= C ->
  (forall r, bounded_sum K B G (g r) (o r)) ->
  (forall r k, s * s + dot (upto d) (z r k) (z r k) <= C) ->
  let relative r e := tied_moments a s g o z (fun r k => outer (z r k)) K r e / tied_noise w e in
  sensitivity AddRemove relative (norm (tied_released K B d)) (G * C) /\
  sensitivity ReplaceOne relative (norm (tied_released K B d)) (sqrt 2 * (G * C)).
Proof.
  intros W HG A N H; apply tied_released_sensitivity; try easy; try lra.
  - intros; unfold outer; cbn; ring.
  - intros r k; rewrite outer_dot; specialize (H r k); pose proof (dot_self (upto d) (z r k)).
    assert (0 <= s * s) by nra; nra.
  - intros; rewrite outer_dot; lra.
Qed.
End Integers.

(* On real numbers: G = 1, |z_k| <= tau, C = s^2 + tau^2. *)
Theorem S9_full_and_diag Row s tau (z : Row -> nat -> nat -> R) (g o : Row -> nat -> R) K B d w a :
  noise_beside w -> 0 <= a <= s * s + tau * tau -> (forall r, bounded_norm K B 1 (g r) (o r)) ->
  (forall r k, norm (upto d) (z r k) <= tau) ->
  let relative r e := full_moments a g o (frame_matrix s z) r e / full_noise w e in
  forall index, index = full_released K B (S d) \/ index = diag_released K B (S d) ->
  sensitivity AddRemove relative (norm index) (s * s + tau * tau) /\
  sensitivity ReplaceOne relative (norm index) (sqrt 2 * (s * s + tau * tau)).
Proof.
  intros W A N Z relative index I; replace (s * s + tau * tau) with (1 * (s * s + tau * tau)) by ring.
  apply (S9_checked_full_and_diag s z g o K B d w a 1 (s * s + tau * tau)); try easy; try lra.
  intros r k; pose proof (dot_le _ _ _ (Z r k)); lra.
Qed.

Theorem S9_spherical Row s tau (z : Row -> nat -> nat -> R) (g o : Row -> nat -> R) K B d w a :
  noise_beside w -> 0 <= a <= s * s + tau * tau -> (forall r, bounded_norm K B 1 (g r) (o r)) ->
  (forall r k, norm (upto d) (z r k) <= tau) ->
  let relative r e := spherical_moments a s g o z d (fun _ _ => 0) r e / spherical_noise w e in
  sensitivity AddRemove relative (norm (spherical_index K B d)) (s * s + tau * tau) /\
  sensitivity ReplaceOne relative (norm (spherical_index K B d)) (sqrt 2 * (s * s + tau * tau)).
Proof.
  intros W A N Z relative; replace (s * s + tau * tau) with (1 * (s * s + tau * tau)) by ring.
  apply (S9_checked_spherical s z g o K B d w a 1 (s * s + tau * tau)); try easy; try lra.
  intros r k; pose proof (dot_le _ _ _ (Z r k)); lra.
Qed.

Theorem S9_tied Row s tau (z : Row -> nat -> nat -> R) (g o : Row -> nat -> R) K B d w a :
  noise_beside w -> 0 <= a <= s * s + tau * tau -> (forall r, bounded_sum K B 1 (g r) (o r)) ->
  (forall r k, norm (upto d) (z r k) <= tau) ->
  let relative r e := tied_moments a s g o z (fun r k => outer (z r k)) K r e / tied_noise w e in
  sensitivity AddRemove relative (norm (tied_released K B d)) (s * s + tau * tau) /\
  sensitivity ReplaceOne relative (norm (tied_released K B d)) (sqrt 2 * (s * s + tau * tau)).
Proof.
  intros W A N Z relative; replace (s * s + tau * tau) with (1 * (s * s + tau * tau)) by ring.
  apply (S9_checked_tied s z g o K B d w a 1 (s * s + tau * tau)); try easy; try lra.
  intros r k; pose proof (dot_le _ _ _ (Z r k)); lra.
Qed.

(* In integers: |psi|^2 <= 4^SQUARED_BITS, sum g^2 <= 4^RESPONSIBILITY_BITS, other components of weight
   4^SQUARED_BITS. The sensitivity is 2^ROW_BITS, and sqrt 2 times that. *)
Lemma row_bits : 2 ^ RESPONSIBILITY_BITS * 4 ^ SQUARED_BITS = 2 ^ ROW_BITS.
Proof. unfold RESPONSIBILITY_BITS, SQUARED_BITS, ROW_BITS; ring. Qed.

Theorem S9_in_integers Row s (z : Row -> nat -> nat -> R) (g o : Row -> nat -> R) K B d w :
  noise_beside w -> (forall r k, s * s + dot (upto d) (z r k) (z r k) <= 4 ^ SQUARED_BITS) ->
  let unit := 4 ^ SQUARED_BITS in
  let full r e := full_moments unit g o (frame_matrix s z) r e / full_noise w e in
  let spherical r e := spherical_moments unit s g o z d (fun _ _ => 0) r e / spherical_noise w e in
  let tied r e := tied_moments unit s g o z (fun r k => outer (z r k)) K r e / tied_noise w e in
  ((forall r, bounded_norm K B (2 ^ RESPONSIBILITY_BITS) (g r) (o r)) ->
     forall index, index = full_released K B (S d) \/ index = diag_released K B (S d) ->
     sensitivity AddRemove full (norm index) (2 ^ ROW_BITS) /\
     sensitivity ReplaceOne full (norm index) (sqrt 2 * 2 ^ ROW_BITS)) /\
  ((forall r, bounded_norm K B (2 ^ RESPONSIBILITY_BITS) (g r) (o r)) ->
     sensitivity AddRemove spherical (norm (spherical_index K B d)) (2 ^ ROW_BITS) /\
     sensitivity ReplaceOne spherical (norm (spherical_index K B d)) (sqrt 2 * 2 ^ ROW_BITS)) /\
  ((forall r, bounded_sum K B (2 ^ RESPONSIBILITY_BITS) (g r) (o r)) ->
     sensitivity AddRemove tied (norm (tied_released K B d)) (2 ^ ROW_BITS) /\
     sensitivity ReplaceOne tied (norm (tied_released K B d)) (sqrt 2 * 2 ^ ROW_BITS)).
Proof.
  intros W Z unit full sph ti; rewrite <- row_bits.
  assert (0 <= 2 ^ RESPONSIBILITY_BITS) by (apply pow_le; lra).
  assert (U : 0 <= unit <= 4 ^ SQUARED_BITS) by (unfold unit; split; [apply pow_le; lra | lra]).
  split; [|split]; intros N.
  - now apply S9_checked_full_and_diag.
  - now apply S9_checked_spherical.
  - now apply S9_checked_tied.
Qed.

(* Disjoint responsibilities and |z| = tau reach the bounds of a full covariance: one column, no other components. *)
Theorem S9_reached : forall K s tau, (2 <= K)%nat ->
  let released := full_moments 0 vertex (fun _ _ => 0) (frame_matrix s (fun (_ _ _ : nat) => tau)) in
  reached AddRemove released (norm (full_index K 0 2)) (s * s + tau * tau) /\
  reached ReplaceOne released (norm (full_index K 0 2)) (sqrt 2 * (s * s + tau * tau)).
Proof.
  intros K s tau H released.
  assert (D : forall r r', (r < K)%nat -> dot (full_index K 0 2) (released r) (released r')
                           = vertex r r' * ((s * s + tau * tau) * (s * s + tau * tau))).
  { intros r r' L; unfold released; rewrite full_dot.
    rewrite (sum_eq _ _ (fun k => (s * s + tau * tau) * (s * s + tau * tau) * (vertex r k * vertex r' k))).
    - rewrite sum_scale; fold (dot (upto K) (vertex r) (vertex r')); rewrite vertex_dot by easy; cbn; ring.
    - intros k; unfold frame_matrix; rewrite outer_dot, psi_dot; unfold dot; cbn; ring. }
  apply (reached_by_rows _ released 0%nat 1%nat); [nra | | |]; rewrite D by lia; unfold vertex; cbn; ring.
Qed.

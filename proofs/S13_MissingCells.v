(* (S-13) Moments of rows with missing cells. In the frame of component k the known cells of a row give an expectation
   z_k and the projector P_k onto the directions that they leave open, of rank q. With psi = (s, z) the row adds
   g_k (psi psi' + P). The code rounds a basis V of these directions, takes P = VV', and checks the norm of
   every row and component in integers. The sensitivity is that of complete rows: C = s^2 + tau^2, and sqrt 2 C
   if a row is replaced, for all four kinds of covariance.

   The theorems hold for any vectors V: they need not be orthonormal, nor P z = 0.

   Relied on by: `IncompleteMoments` and `CentredMoments` of src/dpem/statistics/gaussian_missing.py,
   `fill_rows` of src/dpem/statistics/missing_cells.py. *)
From DPEM Require Import Tables S01_Counts S02_Sums Matrices Moments S09_MomentsInFrames S11_ColumnSquares
  Constants.

(* P = sum_v v v', with zeros beside the first row and column. *)
Definition beside_zero (v : nat -> R) : nat -> R := psi 0 v.

Definition missing_matrix (s : R) (z : nat -> R) (V : list (nat -> R)) : entry -> R :=
  gram (psi s z :: map beside_zero V) (fun v => v).

(* z' P z and |P|^2. *)
Definition along (d : nat) (z : nat -> R) (V : list (nat -> R)) : R :=
  sum V (fun v => dot (upto d) z v * dot (upto d) z v).
Definition norm_of_P (d : nat) (V : list (nat -> R)) : R :=
  sum V (fun v => sum V (fun v' => dot (upto d) v v' * dot (upto d) v v')).

(* The number that the code compares with C^2: (s^2 + |z|^2)^2 + 2 z'Pz + |P|^2. *)
Definition squared_norm (d : nat) (s : R) (z : nat -> R) (V : list (nat -> R)) : R :=
  (s * s + dot (upto d) z z) * (s * s + dot (upto d) z z) + 2 * along d z V + norm_of_P d V.

Lemma missing_norm d s z V :
  dot (square (S d)) (missing_matrix s z V) (missing_matrix s z V) = squared_norm d s z V.
Proof.
  unfold missing_matrix, squared_norm, along, norm_of_P, beside_zero; rewrite gram_dot; cbn [sum].
  assert (A : forall v, dot (upto (S d)) (psi s z) (psi 0 v) = dot (upto d) z v)
    by (intros; rewrite psi_dot; ring).
  assert (B : forall v, dot (upto (S d)) (psi 0 v) (psi s z) = dot (upto d) z v)
    by (intros; rewrite dot_sym; apply A).
  assert (C : forall v v', dot (upto (S d)) (psi 0 v) (psi 0 v') = dot (upto d) v v')
    by (intros; rewrite psi_dot; ring).
  rewrite !sum_map, psi_dot.
  rewrite (sum_eq V (fun v => dot (upto (S d)) (psi s z) (psi 0 v) * dot (upto (S d)) (psi s z) (psi 0 v))
    (fun v => dot (upto d) z v * dot (upto d) z v)) by (intros; cbn beta; now rewrite A).
  match goal with |- _ + sum V ?f = _ =>
    rewrite (sum_eq V f (fun v => dot (upto d) z v * dot (upto d) z v
      + sum V (fun v' => dot (upto d) v v' * dot (upto d) v v'))) end.
  - rewrite sum_plus; ring.
  - intros v; cbn beta; rewrite B, sum_map; f_equal; apply sum_eq; intros v'; now rewrite C.
Qed.

(* -- full and diagonal -------------------------------------------------------------------------------- *)

Theorem S13_full_and_diag Row s (z : Row -> nat -> nat -> R) (V : Row -> nat -> list (nat -> R))
  (g o : Row -> nat -> R) K B d w a G C : noise_beside w -> 0 <= G -> 0 <= a <= C ->
  (forall r, bounded_norm K B G (g r) (o r)) ->
  (forall r k, squared_norm d s (z r k) (V r k) <= C * C) ->
  let relative r e := full_moments a g o (fun r k => missing_matrix s (z r k) (V r k)) r e / full_noise w e in
  forall index, index = full_released K B (S d) \/ index = diag_released K B (S d) ->
  sensitivity AddRemove relative (norm index) (G * C) /\
  sensitivity ReplaceOne relative (norm index) (sqrt 2 * (G * C)).
Proof.
  intros W HG A N H; apply full_released_sensitivity; try easy; try lra.
  - intros; unfold missing_matrix, gram, outer; apply sum_eq; intros; cbn; ring.
  - intros; rewrite missing_norm; apply H.
  - intros; apply gram_dot_nonneg.
Qed.

(* -- spherical: the bound depends on the trace of P ------------------------------------------------------ *)

Definition trace (d : nat) (V : list (nat -> R)) : R := sum V (fun v => dot (upto d) v v).

Theorem S13_spherical Row s (z : Row -> nat -> nat -> R) (V : Row -> nat -> list (nat -> R))
  (g o : Row -> nat -> R) K B d w a G C : noise_beside w -> 0 <= G -> 0 <= a <= C ->
  (forall r, bounded_norm K B G (g r) (o r)) ->
  (forall r k, let A := dot (upto d) (z r k) (z r k) in let q := trace d (V r k) in
     s * s * (s * s) + 2 * (s * s) * A + (A + q) * (A + q) <= C * C) ->
  let relative r e := spherical_moments a s g o z d (fun r k => trace d (V r k)) r e / spherical_noise w e in
  sensitivity AddRemove relative (norm (spherical_index K B d)) (G * C) /\
  sensitivity ReplaceOne relative (norm (spherical_index K B d)) (sqrt 2 * (G * C)).
Proof.
  intros W HG A N H; apply spherical_sensitivity; try easy; try lra.
  intros; apply sum_nonneg; intros; apply dot_self.
Qed.

(* -- tied: the shared matrix is sum_k g_k (z_k z_k' + P_k) ----------------------------------------------- *)

Definition shared_matrix (z : nat -> R) (V : list (nat -> R)) : entry -> R := gram (z :: V) (fun v => v).

Lemma shared_norm d z V : dot (square d) (shared_matrix z V) (shared_matrix z V)
  = dot (upto d) z z * dot (upto d) z z + 2 * along d z V + norm_of_P d V.
Proof.
  unfold shared_matrix, along, norm_of_P; rewrite gram_dot; cbn [sum]; rewrite sum_plus.
  rewrite (sum_eq V (fun a => dot (upto d) a z * dot (upto d) a z)
    (fun v => dot (upto d) z v * dot (upto d) z v)) by (intros; rewrite (dot_sym _ _ z); ring).
  ring.
Qed.

Theorem S13_tied Row s (z : Row -> nat -> nat -> R) (V : Row -> nat -> list (nat -> R))
  (g o : Row -> nat -> R) K B d w a G C : noise_beside w -> 0 <= G -> 0 <= a <= C ->
  (forall r, bounded_sum K B G (g r) (o r)) ->
  (forall r k, squared_norm d s (z r k) (V r k) <= C * C) ->
  let relative r e :=
    tied_moments a s g o z (fun r k => shared_matrix (z r k) (V r k)) K r e / tied_noise w e in
  sensitivity AddRemove relative (norm (tied_released K B d)) (G * C) /\
  sensitivity ReplaceOne relative (norm (tied_released K B d)) (sqrt 2 * (G * C)).
Proof.
  intros W HG A N H; apply tied_released_sensitivity; try easy; try lra.
  - intros; unfold shared_matrix, gram, outer; apply sum_eq; intros; cbn; ring.
  - intros r k; rewrite shared_norm; specialize (H r k); unfold squared_norm in H; lra.
  - intros r r' k l; unfold shared_matrix; rewrite gram_dot; cbn [sum].
    assert (0 <= sum (V r' l) (fun b => dot (upto d) (z r k) b * dot (upto d) (z r k) b))
      by (apply sum_nonneg; intros; apply Rle_0_sqr).
    assert (0 <= sum (V r k) (fun a0 => dot (upto d) a0 (z r' l) * dot (upto d) a0 (z r' l)
                 + sum (V r' l) (fun b => dot (upto d) a0 b * dot (upto d) a0 b))).
    { apply sum_nonneg; intros; apply Rplus_le_le_0_compat; [apply Rle_0_sqr|].
      apply sum_nonneg; intros; apply Rle_0_sqr. }
    lra.
Qed.

(* -- in integers: the check |psi psi' + P|^2 <= 4^26 of the code ------------------------------------------ *)

Theorem S13_in_integers Row s (z : Row -> nat -> nat -> R) (V : Row -> nat -> list (nat -> R))
  (g o : Row -> nat -> R) K B d w : noise_beside w ->
  let unit := 4 ^ SQUARED_BITS in let G := 2 ^ RESPONSIBILITY_BITS in
  let full r e := full_moments unit g o (fun r k => missing_matrix s (z r k) (V r k)) r e / full_noise w e in
  let tied r e :=
    tied_moments unit s g o z (fun r k => shared_matrix (z r k) (V r k)) K r e / tied_noise w e in
  (forall r k, squared_norm d s (z r k) (V r k) <= 4 ^ (2 * SQUARED_BITS)) ->
  ((forall r, bounded_norm K B G (g r) (o r)) ->
     forall index, index = full_released K B (S d) \/ index = diag_released K B (S d) ->
     sensitivity AddRemove full (norm index) (2 ^ ROW_BITS) /\
     sensitivity ReplaceOne full (norm index) (sqrt 2 * 2 ^ ROW_BITS)) /\
  ((forall r, bounded_sum K B G (g r) (o r)) ->
     sensitivity AddRemove tied (norm (tied_released K B d)) (2 ^ ROW_BITS) /\
     sensitivity ReplaceOne tied (norm (tied_released K B d)) (sqrt 2 * 2 ^ ROW_BITS)).
Proof.
  intros W unit G full tied H; rewrite <- row_bits.
  assert (0 <= G) by (apply pow_le; lra).
  assert (U : 0 <= unit <= 4 ^ SQUARED_BITS) by (unfold unit; split; [apply pow_le; lra | lra]).
  assert (Q : forall r k, squared_norm d s (z r k) (V r k) <= 4 ^ SQUARED_BITS * 4 ^ SQUARED_BITS).
  { intros r k; eapply Rle_trans; [apply H|]; rewrite <- pow_add; right; f_equal; lia. }
  split; intros N; [now apply S13_full_and_diag | now apply S13_tied].
Qed.

(* -- the clipping of the text suffices for an exact projector -------------------------------------------- *)

(* V holds q orthonormal vectors at right angles to z. *)
Definition projector_basis (d : nat) (z : nat -> R) (v : nat -> nat -> R) (q : nat) : Prop :=
  (forall i j, In i (upto q) -> In j (upto q) -> dot (upto d) (v i) (v j) = vertex i j) /\
  (forall i, In i (upto q) -> dot (upto d) z (v i) = 0).

Lemma projector_facts d z v q : projector_basis d z v q -> let V := map v (upto q) in
  along d z V = 0 /\ norm_of_P d V = INR q /\ trace d V = INR q.
Proof.
  intros (O & Z) V; unfold along, norm_of_P, trace, V; rewrite !sum_map; split; [|split].
  - apply sum_zero; intros i I; rewrite Z by easy; ring.
  - rewrite (sum_ext _ _ (fun _ => 1)); [rewrite sum_const; unfold upto; rewrite seq_length; ring|].
    intros i I; rewrite sum_map, (sum_ext _ _ (fun j => vertex i j * 1)).
    + apply sum_vertex_in; [apply seq_NoDup | easy].
    + intros j J; rewrite O by easy; destruct (vertex_cases i j) as [-> | ->]; ring.
  - rewrite (sum_ext _ _ (fun _ => 1)); [rewrite sum_const; unfold upto; rewrite seq_length; ring|].
    intros i I; rewrite O by easy; unfold vertex; now rewrite Nat.eqb_refl.
Qed.

Theorem S13_clipped_full d s z v q C : projector_basis d z v q -> INR q <= C * C ->
  dot (upto d) z z <= sqrt (C * C - INR q) - s * s -> squared_norm d s z (map v (upto q)) <= C * C.
Proof.
  intros P L H; destruct (projector_facts d z v q P) as (A & N & _); unfold squared_norm; rewrite A, N.
  pose proof (sqrt_sqrt (C * C - INR q)) as S; pose proof (sqrt_pos (C * C - INR q)).
  set (x := sqrt _) in *; pose proof (dot_self (upto d) z); assert (0 <= s * s) by nra.
  set (y := s * s + dot (upto d) z z) in *.
  assert (y * y <= x * x) by (apply Rmult_le_compat; unfold y in *; lra); lra.
Qed.

Theorem S13_clipped_spherical d s z v n C : projector_basis d z v n ->
  let A := dot (upto d) z z in let q := trace d (map v (upto n)) in
  A <= sqrt (C * C + 2 * (s * s) * q) - s * s - q ->
  s * s * (s * s) + 2 * (s * s) * A + (A + q) * (A + q) <= C * C.
Proof.
  intros B A q H; destruct (projector_facts d z v n B) as (_ & _ & T).
  pose proof (pos_INR n) as L; rewrite <- T in L; fold q in L.
  assert (0 <= s * s) by nra; assert (0 <= A) by apply dot_self.
  assert (0 <= C * C + 2 * (s * s) * q) as P by (assert (0 <= s * s * q) by (now apply Rmult_le_pos); nra).
  pose proof (sqrt_sqrt _ P); pose proof (sqrt_pos (C * C + 2 * (s * s) * q)); set (x := sqrt _) in *.
  assert ((A + q + s * s) * (A + q + s * s) <= x * x) by (apply Rmult_le_compat; lra); lra.
Qed.

(* -- known cells: counts of weight c / sqrt d beside moments of norm C ------------------------------------- *)

Inductive centred_entry (I : Type) := Moments_of (i : I) | Known (j : nat).
Arguments Moments_of {I}. Arguments Known {I}.

Definition centred {Row I} (moments : Row -> I -> R) (known : Row -> nat -> R) (r : Row) (e : centred_entry I) : R :=
  match e with Moments_of i => moments r i | Known j => known r j end.

Theorem S13_known_cells Row I (index : list I) (moments : Row -> I -> R) (known : Row -> nat -> R) d C c :
  (forall r, norm index (moments r) <= C) -> (forall r r', 0 <= dot index (moments r) (moments r')) ->
  (forall r j, 0 <= known r j) -> (forall r, dot (upto d) (known r) (known r) <= c * c) ->
  let whole := map Moments_of index ++ map Known (upto d) in
  sensitivity AddRemove (centred moments known) (norm whole) (sqrt (C * C + c * c)) /\
  sensitivity ReplaceOne (centred moments known) (norm whole) (sqrt 2 * sqrt (C * C + c * c)).
Proof.
  intros N P Q H whole.
  assert (D : forall r r', dot whole (centred moments known r) (centred moments known r')
                           = dot index (moments r) (moments r') + dot (upto d) (known r) (known r')).
  { intros; unfold dot, whole; now rewrite sum_app, !sum_map. }
  apply cone; [apply sqrt_pos | |].
  - intros r; apply sqrt_le_1_alt; rewrite D; specialize (H r).
    pose proof (dot_le _ _ _ (N r)); lra.
  - intros r r'; rewrite D; apply Rplus_le_le_0_compat; [apply P | now apply dot_nonneg].
Qed.

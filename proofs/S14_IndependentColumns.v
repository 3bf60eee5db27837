(* (S-14) Mixtures of independent columns. The cells of a row have features f_c >= 0 with |f_c| <= 1, or none if the
   cell is missing. The row adds (g_k, g_k f)_k. For m columns the sensitivity is sqrt (1 + m), and
   sqrt (2 (1 + m)) if a row is replaced, whatever the number of components. Tables of a mixture: a missing cell
   has its expectation under component k, and each of the q columns that may be missing has a feature that is 1
   where the cell is missing. The sensitivity is sqrt (1 + m + q), and sqrt 2 times that.

   In integers g has units of 1/G and features of 1/T, and the sensitivity is G T times as large.

   Relied on by: `ProductMixture` of src/dpem/plugin/product_mixture.py, `MixtureTables` of
   src/dpem/statistics/mixture_tables.py. *)
From DPEM Require Import Tables S01_Counts Constants.

(* The share of component k, entry e of the features of column c, and the flag of column c. *)
Inductive product_entry := Share (k : nat) | Feature (k c e : nat) | Flag (k c : nat).

Definition product_index (K m q : nat) (size : nat -> nat) : list product_entry :=
  map Share (upto K)
  ++ flat_map (fun k => flat_map (fun c => map (Feature k c) (upto (size c))) (upto m)) (upto K)
  ++ flat_map (fun k => map (Flag k) (upto q)) (upto K).

Definition product {Row} (T : R) (g : Row -> nat -> R) (f : Row -> nat -> nat -> nat -> R)
  (lost : Row -> nat -> R) (r : Row) (e : product_entry) : R :=
  match e with
  | Share k => g r k * T
  | Feature k c e => g r k * f r k c e
  | Flag k c => g r k * lost r c
  end.

Lemma product_square Row T (g : Row -> nat -> R) f lost K m q size r :
  dot (product_index K m q size) (product T g f lost r) (product T g f lost r)
  = sum (upto K) (fun k => g r k * g r k *
      (T * T + sum (upto m) (fun c => dot (upto (size c)) (f r k c) (f r k c))
       + dot (upto q) (lost r) (lost r))).
Proof.
  unfold dot at 1, product_index; rewrite !sum_app, sum_map, !sum_flat_map, <- !sum_plus.
  apply sum_eq; intros k; rewrite sum_flat_map, sum_map; cbn [product].
  rewrite (sum_eq (upto m) _ (fun c => g r k * g r k * dot (upto (size c)) (f r k c) (f r k c))).
  - rewrite sum_scale; replace (sum (upto q) _) with (g r k * g r k * dot (upto q) (lost r) (lost r)); [ring|].
    unfold dot; rewrite <- sum_scale; apply sum_eq; intros; ring.
  - intros c; rewrite sum_map; unfold dot; rewrite <- sum_scale; apply sum_eq; intros; cbn; ring.
Qed.

Theorem S14_tables_of_a_mixture Row T G (g : Row -> nat -> R) f lost K m q size : 0 <= T -> 0 <= G ->
  (forall r k, 0 <= g r k) -> (forall r, dot (upto K) (g r) (g r) <= G * G) ->
  (forall r k c e, 0 <= f r k c e) -> (forall r k c, dot (upto (size c)) (f r k c) (f r k c) <= T * T) ->
  (forall r c, 0 <= lost r c <= T) ->
  sensitivity AddRemove (product T g f lost) (norm (product_index K m q size))
    (G * T * sqrt (1 + INR m + INR q)) /\
  sensitivity ReplaceOne (product T g f lost) (norm (product_index K m q size))
    (sqrt 2 * (G * T * sqrt (1 + INR m + INR q))).
Proof.
  intros HT HG G0 G1 F0 F1 L; pose proof (pos_INR m); pose proof (pos_INR q).
  assert (0 <= G * T) by now apply Rmult_le_pos.
  apply cone_of_nonnegative.
  - apply Rmult_le_pos; [easy | apply sqrt_pos].
  - intros r; apply norm_le; [apply Rmult_le_pos; [easy | apply sqrt_pos]|]; rewrite product_square.
    replace (G * T * sqrt (1 + INR m + INR q) * (G * T * sqrt (1 + INR m + INR q)))
      with (G * G * (T * T * (sqrt (1 + INR m + INR q) * sqrt (1 + INR m + INR q)))) by ring.
    rewrite sqrt_sqrt by lra.
    apply Rle_trans with (dot (upto K) (g r) (g r) * (T * T * (1 + INR m + INR q))).
    + unfold dot at 3; rewrite (Rmult_comm (sum _ _)), <- sum_scale; apply sum_le; intros k _.
      rewrite (Rmult_comm (T * T * _)); apply Rmult_le_compat_l; [apply Rle_0_sqr|].
      assert (sum (upto m) (fun c => dot (upto (size c)) (f r k c) (f r k c)) <= T * T * INR m).
      { apply Rle_trans with (sum (upto m) (fun _ => T * T)); [now apply sum_le|].
        rewrite sum_const; unfold upto; rewrite seq_length; lra. }
      assert (dot (upto q) (lost r) (lost r) <= T * T * INR q).
      { apply Rle_trans with (sum (upto q) (fun _ => T * T)).
        - apply sum_le; intros c _; specialize (L r c); nra.
        - rewrite sum_const; unfold upto; rewrite seq_length; lra. }
      lra.
    + apply Rmult_le_compat_r; [|apply G1].
      apply Rmult_le_pos; [apply Rle_0_sqr | lra].
  - intros r [k | k c e | k c]; cbn; apply Rmult_le_pos; auto; apply L.
Qed.

(* Without features of missing cells, with responsibilities on the simplex. *)
Theorem S14_product_mixture Row (g : Row -> nat -> R) f K m size : (forall r, responsibilities K (g r)) ->
  (forall r k c e, 0 <= f r k c e) -> (forall r k c, dot (upto (size c)) (f r k c) (f r k c) <= 1) ->
  sensitivity AddRemove (product 1 g f (fun _ _ => 0)) (norm (product_index K m 0 size)) (sqrt (1 + INR m)) /\
  sensitivity ReplaceOne (product 1 g f (fun _ _ => 0)) (norm (product_index K m 0 size))
    (sqrt (2 * (1 + INR m))).
Proof.
  intros G F0 F1.
  destruct (S14_tables_of_a_mixture Row 1 1 g f (fun _ _ => 0) K m 0 size) as (A & B); try easy; try lra.
  - intros; apply G.
  - intros r; pose proof (responsibilities_norm K _ (G r)); lra.
  - intros; rewrite Rmult_1_l; apply F1.
  - intros; lra.
  - cbn [INR] in A, B; rewrite sqrt_mult_alt by lra.
    replace (1 * 1 * sqrt (1 + INR m + 0)) with (sqrt (1 + INR m)) in A, B
      by (rewrite Rplus_0_r; ring).
    split; assumption.
Qed.

(* Probabilities that sum to at most T have squares that sum to at most T^2: rounded down, they keep the bound. *)
Theorem S14_expectation (l : list nat) (theta : nat -> R) T : (forall e, 0 <= theta e) -> sum l theta <= T ->
  dot l theta theta <= T * T.
Proof.
  intros P S; pose proof (sum_of_squares l theta (fun e _ => P e)) as H.
  assert (0 <= sum l theta) by (apply sum_nonneg; auto); unfold dot; nra.
Qed.

(* The units of the code. *)
Theorem S14_in_integers Row (g : Row -> nat -> R) f lost K m q size :
  let G := 2 ^ SHARE_BITS in let T := 2 ^ TABLE_BITS in
  (forall r k, 0 <= g r k) -> (forall r, sum (upto K) (g r) <= G) ->
  (forall r k c e, 0 <= f r k c e) -> (forall r k c, sum (upto (size c)) (f r k c) <= T) ->
  (forall r c, 0 <= lost r c <= T) ->
  sensitivity AddRemove (product T g f lost) (norm (product_index K m q size))
    (2 ^ (SHARE_BITS + TABLE_BITS) * sqrt (1 + INR m + INR q)) /\
  sensitivity ReplaceOne (product T g f lost) (norm (product_index K m q size))
    (sqrt 2 * (2 ^ (SHARE_BITS + TABLE_BITS) * sqrt (1 + INR m + INR q))).
Proof.
  intros G T G0 G1 F0 F1 L; rewrite pow_add; fold G T.
  apply S14_tables_of_a_mixture; try easy; try (apply pow_le; lra).
  - intros; now apply S14_expectation.
  - intros; now apply S14_expectation.
Qed.

(* Disjoint responsibilities reach the bounds: every column in its first category. *)
Theorem S14_reached : forall K m, (2 <= K)%nat ->
  let s := product 1 vertex (fun _ _ _ => vertex 0) (fun _ _ => 0) in
  reached AddRemove s (norm (product_index K m 0 (fun _ => 1%nat))) (sqrt (1 + INR m)) /\
  reached ReplaceOne s (norm (product_index K m 0 (fun _ => 1%nat))) (sqrt 2 * sqrt (1 + INR m)).
Proof.
  intros K m H s; pose proof (pos_INR m).
  assert (D : forall r, (r < K)%nat -> dot (product_index K m 0 (fun _ => 1%nat)) (s r) (s r) = 1 + INR m).
  { intros r L; unfold s; rewrite product_square.
    rewrite (sum_eq _ _ (fun k => (1 + INR m) * (vertex r k * vertex r k))).
    - rewrite sum_scale; fold (dot (upto K) (vertex r) (vertex r)); rewrite vertex_dot by easy.
      unfold vertex; rewrite Nat.eqb_refl; ring.
    - intros k; rewrite (sum_eq (upto m) _ (fun _ => 1)) by (intros; unfold dot, vertex; cbn; ring).
      rewrite sum_const; unfold upto at 1; rewrite seq_length; unfold dot; cbn; ring. }
  apply (reached_by_rows _ s 0%nat 1%nat); [apply sqrt_pos | | |]; rewrite ?D by lia; rewrite ?sqrt_sqrt by lra; try ring.
  apply sum_zero; intros [[|[|k]] | [|[|k]] c e | [|[|k]] c] _; unfold s, product, vertex; cbn; ring.
Qed.

(* (S-2) Sums. The row adds (g_k u)_k with |u| <= R. The sensitivity is R, and 2 R if a row is replaced.
   In L1 it is sqrt d R for d columns, and replace-one doubles it. The rows u and u' = -u with
   g = g' = e_1 reach the bounds of the Euclidean norm.

   Relied on by: `sums` of src/dpem/privacy/sensitivity.py, `Sums` of src/dpem/statistics/simple.py,
   src/dpem/paper/cluster_sums.py and mixture_sums.py. *)
From DPEM Require Import Tables.

(* Entry (k, j): column j of the sum of component k. *)
Definition sums_index (K d : nat) : list (nat * nat) := list_prod (upto K) (upto d).

Definition weighted_sums {Row} (g u : Row -> nat -> R) (r : Row) (e : nat * nat) : R :=
  g r (fst e) * u r (snd e).

Lemma sum_list_prod {A B} (l : list A) (m : list B) f :
  sum (list_prod l m) f = sum l (fun a => sum m (fun b => f (a, b))).
Proof.
  induction l as [|a l IH]; cbn; [reflexivity|].
  now rewrite sum_app, sum_map, IH.
Qed.

Lemma sums_dot Row (g u : Row -> nat -> R) K d r r' :
  dot (sums_index K d) (weighted_sums g u r) (weighted_sums g u r')
  = dot (upto K) (g r) (g r') * dot (upto d) (u r) (u r').
Proof.
  unfold dot, sums_index, weighted_sums; rewrite sum_list_prod, sum_product.
  apply sum_eq; intros k; apply sum_eq; intros j; cbn; ring.
Qed.

Lemma sums_norm Row (g u : Row -> nat -> R) K d c : (forall r, responsibilities K (g r)) -> 0 <= c ->
  (forall r, norm (upto d) (u r) <= c) -> forall r, norm (sums_index K d) (weighted_sums g u r) <= c.
Proof.
  intros G C U r; apply norm_le; [easy|]; rewrite sums_dot.
  pose proof (responsibilities_norm K _ (G r)); pose proof (dot_le _ _ _ (U r)).
  pose proof (dot_self (upto K) (g r)); pose proof (dot_self (upto d) (u r)); nra.
Qed.

Theorem S2_sums Row (g u : Row -> nat -> R) K d radius : (forall r, responsibilities K (g r)) ->
  0 <= radius -> (forall r, norm (upto d) (u r) <= radius) ->
  sensitivity AddRemove (weighted_sums g u) (norm (sums_index K d)) radius /\
  sensitivity ReplaceOne (weighted_sums g u) (norm (sums_index K d)) (2 * radius).
Proof. intros; apply triangle; [apply norm_seminorm | now apply sums_norm]. Qed.

Theorem S2_sums_l1 Row (g u : Row -> nat -> R) K d radius : (forall r, responsibilities K (g r)) ->
  0 <= radius -> (forall r, norm (upto d) (u r) <= radius) ->
  sensitivity AddRemove (weighted_sums g u) (norm_l1 (sums_index K d)) (sqrt (INR d) * radius) /\
  sensitivity ReplaceOne (weighted_sums g u) (norm_l1 (sums_index K d)) (2 * (sqrt (INR d) * radius)).
Proof.
  intros G P U; apply triangle; [apply norm_l1_seminorm|]; intros r.
  unfold norm_l1, sums_index; rewrite sum_list_prod.
  apply Rle_trans with (sum (upto K) (g r) * norm_l1 (upto d) (u r)).
  - unfold norm_l1; rewrite sum_product; apply Req_le, sum_eq; intros k; apply sum_eq; intros j.
    unfold weighted_sums; cbn; rewrite Rabs_mult, (Rabs_pos_eq (g r k)); [ring | apply G].
  - pose proof (norm_l1_le (upto d) (u r)) as L; unfold upto at 2 in L; rewrite seq_length in L.
    pose proof (sqrt_pos (INR d)); specialize (U r); destruct (G r) as (G0 & G1).
    assert (0 <= norm_l1 (upto d) (u r)) by (apply sum_nonneg; intros; apply Rabs_pos).
    assert (0 <= sum (upto K) (g r)) by (apply sum_nonneg; auto).
    pose proof (norm_nonneg (upto d) (u r)); nra.
Qed.

(* One component and one column: the rows u and -u. *)
Theorem S2_reached : forall radius, 0 <= radius ->
  let u (r : bool) (j : nat) := if r then radius else - radius in
  reached AddRemove (weighted_sums (fun _ _ => 1) u) (norm (sums_index 1 1)) radius /\
  reached ReplaceOne (weighted_sums (fun _ _ => 1) u) (norm (sums_index 1 1)) (2 * radius).
Proof.
  intros radius P u; split.
  - exists [true], []; split; [now apply row_removed with true []|].
    unfold norm, dot, move, total, weighted_sums, u; cbn.
    replace (_ + 0) with (radius * radius) by ring; now apply sqrt_square.
  - exists [true], [false]; split; [now apply row_replaced with true false []|].
    unfold norm, dot, move, total, weighted_sums, u; cbn.
    replace (_ + 0) with (2 * radius * (2 * radius)) by ring; apply sqrt_square; lra.
Qed.

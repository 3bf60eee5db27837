(* Exact products and sums in float64 (docs/proofs/engines.md). If every sum of absolute products of integers stays
   within 2^53, the computed sum is the integer sum: in any order of additions, with or without fused
   multiply-adds, on any number of threads, and with any rule at ties.

   Relied on by: `exact_product` of src/dpem/statistics/exact.py, EXACT_ROWS and CHECKED_TOGETHER of
   src/dpem/statistics/gaussian.py, CHUNK of src/dpem/statistics/kernels/arithmetic.py, LARGEST_BLOCK of
   src/dpem/engines/base.py. *)
From Coq Require Import Reals ZArith Lia Lra List.
From Flocq Require Import Core.
From DPEM Require Import Constants.
Import ListNotations.
Open Scope R_scope.

Section Exact.
Variable choice : Z -> bool.   (* the rule at ties *)
Definition rounded (x : R) : R := round radix2 (FLT_exp (-1074) 53) (Znearest choice) x.

Lemma rounded_integer n : (Z.abs n <= 2 ^ 53)%Z -> rounded (IZR n) = IZR n.
Proof.
  intros H; apply round_generic; [apply valid_rnd_N|].
  destruct (Z.eq_dec (Z.abs n) (2 ^ 53)) as [E|E].
  - assert (n = 2 ^ 53 \/ n = - 2 ^ 53)%Z as [-> | ->] by lia.
    + change (2 ^ 53)%Z with (Zpower radix2 53); rewrite IZR_Zpower by lia.
      apply generic_format_bpow; cbv; discriminate.
    + rewrite opp_IZR; apply generic_format_opp.
      change (2 ^ 53)%Z with (Zpower radix2 53); rewrite IZR_Zpower by lia.
      apply generic_format_bpow; cbv; discriminate.
  - apply generic_format_FLT; exists (Float radix2 n 0).
    + unfold F2R; simpl; lra.
    + change (Zpower radix2 53) with (2 ^ 53)%Z; simpl; lia.
    + simpl; lia.
Qed.

(* Any computation of one entry: rounded products, fused multiply-adds and additions, in any order. *)
Inductive computation :=
| Zero
| Integer (a : Z)
| Product (a b : Z)
| FusedMultiplyAdd (a b : Z) (t : computation)
| Plus (t u : computation).

(* The sum of absolute products, the integer sum, and what the machine computes. *)
Fixpoint weight t : Z :=
  match t with
  | Zero => 0
  | Integer a => Z.abs a
  | Product a b => Z.abs (a * b)
  | FusedMultiplyAdd a b t => Z.abs (a * b) + weight t
  | Plus t u => weight t + weight u
  end.

Fixpoint exact t : Z :=
  match t with
  | Zero => 0
  | Integer a => a
  | Product a b => a * b
  | FusedMultiplyAdd a b t => a * b + exact t
  | Plus t u => exact t + exact u
  end.

Fixpoint computed t : R :=
  match t with
  | Zero => 0
  | Integer a => rounded (IZR a)
  | Product a b => rounded (IZR a * IZR b)
  | FusedMultiplyAdd a b t => rounded (IZR a * IZR b + computed t)
  | Plus t u => rounded (computed t + computed u)
  end.

Lemma exact_le_weight t : (Z.abs (exact t) <= weight t)%Z.
Proof. induction t; cbn [exact weight]; lia. Qed.

Theorem float_sums_exact t : (weight t <= 2 ^ Z.of_nat EXACT_BITS)%Z -> computed t = IZR (exact t).
Proof.
  change (Z.of_nat EXACT_BITS) with 53%Z.
  induction t as [|a|a b|a b t IH|t IHt u IHu]; cbn [weight exact computed]; intros H.
  - easy.
  - now apply rounded_integer.
  - rewrite <- mult_IZR; now apply rounded_integer.
  - pose proof (exact_le_weight t); rewrite IH, <- mult_IZR, <- plus_IZR by lia; apply rounded_integer; lia.
  - pose proof (exact_le_weight t); pose proof (exact_le_weight u).
    rewrite IHt, IHu, <- plus_IZR by lia; apply rounded_integer; lia.
Qed.
End Exact.

(* -- the sums of the package --------------------------------------------------------------------------- *)

Open Scope Z_scope.
Notation "'two' n" := (2 ^ Z.of_nat n) (at level 9).

Fixpoint sum_Z {A} (l : list A) (f : A -> Z) : Z := match l with [] => 0 | a :: l => f a + sum_Z l f end.

Lemma sum_Z_bound {A} (l : list A) f m n : (forall a, In a l -> f a <= m) -> 0 <= m ->
  (length l <= n)%nat -> sum_Z l f <= Z.of_nat n * m.
Proof.
  intros H M L; apply Z.le_trans with (Z.of_nat (length l) * m); [|apply Z.mul_le_mono_nonneg_r; lia].
  clear L; induction l as [|a l IH]; [cbn; lia|]; cbn [sum_Z length]; rewrite Nat2Z.inj_succ, Z.mul_succ_l.
  specialize (IH (fun b I => H b (or_intror I))); specialize (H a (or_introl eq_refl)); lia.
Qed.

(* Moments: EXACT_ROWS rows of weight at most 2^RESPONSIBILITY_BITS and entries of psi at most 2^SQUARED_BITS:
   a row adds at most 2^ROW_BITS, and all sums of absolute products stay within 2^51. *)
Theorem sums_of_moments {A} (rows : list A) (g x y : A -> Z) : (length rows <= EXACT_ROWS)%nat ->
  (forall r, 0 <= g r <= two RESPONSIBILITY_BITS) ->
  (forall r, Z.abs (x r) <= two SQUARED_BITS) -> (forall r, Z.abs (y r) <= two SQUARED_BITS) ->
  (forall r, Z.abs (g r * x r * y r) <= two ROW_BITS) /\
  sum_Z rows (fun r => Z.abs (g r * x r * y r)) <= 2 ^ 51.
Proof.
  intros L G X Y.
  assert (B : forall r, Z.abs (g r * x r * y r) <= two ROW_BITS).
  { intros r; specialize (G r); specialize (X r); specialize (Y r); rewrite !Z.abs_mul.
    change (two ROW_BITS) with (two RESPONSIBILITY_BITS * two SQUARED_BITS * two SQUARED_BITS).
    apply Z.mul_le_mono_nonneg; try lia; apply Z.mul_le_mono_nonneg; lia. }
  split; [easy|].
  eapply Z.le_trans; [apply (sum_Z_bound rows _ (two ROW_BITS) EXACT_ROWS); auto|].
  - apply Z.pow_nonneg; lia.
  - unfold EXACT_ROWS, ROW_BITS; cbn; lia.
Qed.

Lemma squares_nonneg (l : list Z) : 0 <= sum_Z l (fun a => a * a).
Proof. induction l as [|a l IH]; cbn [sum_Z]; [lia|]; pose proof (Z.square_nonneg a); lia. Qed.

(* The sums that check a product: of up to CHECKED_TOGETHER entries of psi, whose norm is at most 2^SQUARED_BITS. *)
Lemma sum_squared (l : list Z) :
  sum_Z l (fun a => a) * sum_Z l (fun a => a) <= Z.of_nat (length l) * sum_Z l (fun a => a * a).
Proof.
  induction l as [|a l IH]; [cbn; lia|]; cbn [sum_Z length]; rewrite Nat2Z.inj_succ.
  set (s := sum_Z l (fun a => a)) in *; set (q := sum_Z l (fun a => a * a)) in *.
  set (n := Z.of_nat (length l)) in *; assert (0 <= n) by lia.
  assert (Q : 0 <= q) by apply squares_nonneg.
  (* (a + s)^2 <= a^2 + s^2 + (n a^2 + s^2 / n); here 2 a s <= n a^2 + q. *)
  assert (2 * a * s <= n * (a * a) + q).
  - destruct (Z.eq_dec n 0) as [Z0|N0].
    + assert (s = 0) as -> by (rewrite Z0 in IH; nia); pose proof (Z.square_nonneg a); nia.
    + pose proof (Z.square_nonneg (n * a - s)) as D.
      assert (n * (2 * a * s) <= n * (n * (a * a) + q)) as M by lia.
      apply Z.mul_le_mono_pos_l in M; lia.
  - replace (Z.succ n * (a * a + q)) with (n * (a * a) + n * q + a * a + q) by ring; lia.
Qed.

Theorem checking_sums_of_moments {A} (rows : list A) (g y : A -> Z) (group : A -> list Z) :
  (length rows <= EXACT_ROWS)%nat -> (forall r, (length (group r) <= CHECKED_TOGETHER)%nat) ->
  (forall r, 0 <= g r <= two RESPONSIBILITY_BITS) -> (forall r, Z.abs (y r) <= two SQUARED_BITS) ->
  (forall r, sum_Z (group r) (fun a => a * a) <= two SQUARED_BITS * two SQUARED_BITS) ->
  sum_Z rows (fun r => Z.abs (g r * sum_Z (group r) (fun a => a) * y r)) <= two EXACT_BITS.
Proof.
  intros L C G Y P.
  assert (B : forall r, Z.abs (sum_Z (group r) (fun a => a)) <= 23171).   (* 2^13 sqrt 8 = 23170.5 *)
  { intros r; specialize (P r); specialize (C r); pose proof (sum_squared (group r)) as S.
    set (s := sum_Z (group r) (fun a => a)) in *; set (q := sum_Z (group r) (fun a => a * a)) in *.
    change (two SQUARED_BITS * two SQUARED_BITS) with 67108864 in P.
    unfold CHECKED_TOGETHER in C; assert (0 <= q) by apply squares_nonneg.
    assert (s * s <= 8 * 67108864) by nia; nia. }
  eapply Z.le_trans; [apply (sum_Z_bound rows _ (two RESPONSIBILITY_BITS * 23171 * two SQUARED_BITS) EXACT_ROWS)|].
  - intros r _; specialize (G r); specialize (B r); specialize (Y r); rewrite !Z.abs_mul.
    apply Z.mul_le_mono_nonneg; try lia; apply Z.mul_le_mono_nonneg; lia.
  - cbn; lia.
  - easy.
  - vm_compute; discriminate.
Qed.

(* Blocks: at most 2^LARGEST_BLOCK_BITS rows (on a device 2^DEVICE_BLOCK_BITS) that add at most 2^ROW_BITS each. The
   sum, and every part of it in any order, is within 64 bits. *)
Theorem sums_of_blocks {A} (rows : list A) (entry : A -> Z) :
  (length rows <= 2 ^ Nat.max LARGEST_BLOCK_BITS DEVICE_BLOCK_BITS)%nat ->
  (forall r, Z.abs (entry r) <= two ROW_BITS) -> sum_Z rows (fun r => Z.abs (entry r)) < 2 ^ 63.
Proof.
  intros L H; eapply Z.le_lt_trans;
    [apply (sum_Z_bound rows _ (two ROW_BITS) (length rows)); auto; apply Z.pow_nonneg; lia|].
  assert (Z.of_nat (length rows) <= 2 ^ 20).
  { apply Nat2Z.inj_le in L; rewrite Nat2Z.inj_pow in L; exact L. }
  change (two ROW_BITS) with (2 ^ 42); lia.
Qed.

(* Chunks of compiled kernels stay below 2^50 + 1. *)
Theorem sums_of_chunks {A} (rows : list A) (entry : A -> Z) : (length rows <= CHUNK)%nat ->
  (forall r, Z.abs (entry r) <= two ROW_BITS) -> sum_Z rows (fun r => Z.abs (entry r)) <= 2 ^ 50.
Proof.
  intros L H; eapply Z.le_trans; [apply (sum_Z_bound rows _ (two ROW_BITS) CHUNK); auto; apply Z.pow_nonneg; lia|].
  vm_compute; discriminate.
Qed.

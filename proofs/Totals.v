(* Running sums of integers in two limbs (docs/proofs/engines.md). Blocks are added and totals merged in any
   order; operations of 64 bits wrap around. If the whole sum S is at most 2^82 in size and made of at most 2^42
   blocks, then the limbs stand for S, and `value` returns floor(S / 2^coarse_bits), clipped to +-(2^62 - 1), for every
   coarse_bits from 0 to 20; no intermediate result of `value` leaves 64 bits. Sums that are x apart have values at most
   |x| / 2^coarse_bits + 1 apart, and at most |x| for coarse_bits = 0 (S10_LowBits.v).

   Relied on by: `IntegerTotal` of src/dpem/engines/totals.py. *)
From Coq Require Import ZArith Lia List.
From DPEM Require Import Constants.
Import ListNotations.
Open Scope Z_scope.

(* Arithmetic of 64 bits. *)
Definition wrap (x : Z) : Z := (x + 2 ^ 63) mod 2 ^ 64 - 2 ^ 63.
Definition fits (x : Z) : Prop := - 2 ^ 63 <= x < 2 ^ 63.

Lemma wrap_fits x : fits x -> wrap x = x.
Proof. unfold wrap, fits; intros H; rewrite Z.mod_small; lia. Qed.

Lemma wrap_plus a b : wrap (wrap a + wrap b) = wrap (a + b).
Proof.
  unfold wrap; f_equal.
  replace ((a + 2 ^ 63) mod 2 ^ 64 - 2 ^ 63 + ((b + 2 ^ 63) mod 2 ^ 64 - 2 ^ 63) + 2 ^ 63)
    with ((a + 2 ^ 63) mod 2 ^ 64 + (b + 2 ^ 63) mod 2 ^ 64 - 2 ^ 63) by ring.
  rewrite Zminus_mod, <- Zplus_mod, <- Zminus_mod; f_equal; ring.
Qed.

Definition LOW : Z := Z.of_nat LOW_BITS.

(* Totals: of nothing, of one more block, of two totals. Blocks are integers of 64 bits. *)
Inductive totals := Nothing | Add (t : totals) (block : Z) | Merge (t u : totals).

Fixpoint blocks t : Z := match t with Nothing => 0 | Add t _ => blocks t + 1 | Merge t u => blocks t + blocks u end.
Fixpoint whole t : Z := match t with Nothing => 0 | Add t b => whole t + b | Merge t u => whole t + whole u end.

(* `_high` and `_low`, as the code computes them. *)
Fixpoint high t : Z :=
  match t with
  | Nothing => 0
  | Add t b => wrap (high t + b / 2 ^ LOW)
  | Merge t u => wrap (high t + high u)
  end.
Fixpoint low t : Z :=
  match t with
  | Nothing => 0
  | Add t b => wrap (low t + b mod 2 ^ LOW)
  | Merge t u => wrap (low t + low u)
  end.

(* The same without wrapping. *)
Fixpoint high_exact t : Z :=
  match t with Nothing => 0 | Add t b => high_exact t + b / 2 ^ LOW | Merge t u => high_exact t + high_exact u end.
Fixpoint low_exact t : Z :=
  match t with Nothing => 0 | Add t b => low_exact t + b mod 2 ^ LOW | Merge t u => low_exact t + low_exact u end.

Fixpoint blocks_fit t : Prop :=
  match t with Nothing => True | Add t b => blocks_fit t /\ fits b | Merge t u => blocks_fit t /\ blocks_fit u end.

Lemma LOW_pos : 0 < 2 ^ LOW. Proof. reflexivity. Qed.

Lemma wraps t : blocks_fit t -> high t = wrap (high_exact t) /\ low t = wrap (low_exact t).
Proof.
  induction t as [|t IH b|t IHt u IHu]; cbn [blocks_fit high low high_exact low_exact].
  - split; reflexivity.
  - intros (F & B); destruct (IH F) as (-> & ->).
    assert (wrap (b / 2 ^ LOW) = b / 2 ^ LOW) as E1.
    { apply wrap_fits; unfold fits in *; change (2 ^ LOW) with 1048576.
      split; [apply Z.div_le_lower_bound | apply Z.div_lt_upper_bound]; lia. }
    assert (wrap (b mod 2 ^ LOW) = b mod 2 ^ LOW) as E2.
    { apply wrap_fits; unfold fits; pose proof (Z.mod_pos_bound b (2 ^ LOW) LOW_pos).
      change (2 ^ LOW) with 1048576 in *; lia. }
    rewrite <- E1 at 1; rewrite <- E2 at 1; now rewrite !wrap_plus.
  - intros (F & F'); destruct (IHt F) as (-> & ->); destruct (IHu F') as (-> & ->); now rewrite !wrap_plus.
Qed.

Lemma limbs t : whole t = high_exact t * 2 ^ LOW + low_exact t /\ 0 <= low_exact t <= blocks t * 2 ^ LOW.
Proof.
  induction t as [|t (IH & L)  b|t (IHt & L) u (IHu & L')]; cbn [whole high_exact low_exact blocks]; [lia| |lia].
  pose proof (Z.div_mod b (2 ^ LOW) ltac:(pose proof LOW_pos; lia)) as D.
  pose proof (Z.mod_pos_bound b (2 ^ LOW) LOW_pos); nia.
Qed.

(* Any order, any division into parts: the limbs stand for the sum, although operations may have wrapped around. *)
Theorem limbs_stand_for_the_sum t : blocks_fit t -> Z.abs (whole t) <= 2 ^ 82 -> blocks t <= 2 ^ 42 ->
  whole t = high t * 2 ^ LOW + low t /\ 0 <= low t <= 2 ^ 62 /\ fits (high t).
Proof.
  intros F S B; destruct (wraps t F) as (-> & ->); destruct (limbs t) as (E & L).
  change (2 ^ LOW) with 1048576 in *.
  assert (H : fits (high_exact t)) by (unfold fits; lia).
  assert (H' : fits (low_exact t)) by (unfold fits; lia).
  rewrite !wrap_fits by easy; unfold fits in *; lia.
Qed.

(* -- value ------------------------------------------------------------------------------------------------ *)

Definition limit : Z := 2 ^ Z.of_nat LARGEST_STATISTIC_BITS - 1.
Definition clip (least most x : Z) : Z := Z.min (Z.max x least) most.   (* numpy.clip *)

(* `IntegerTotal.value`, line by line. *)
Definition value (hi lo coarse_bits : Z) : Z :=
  let carry := lo / 2 ^ LOW in
  let hi := hi + carry in
  let lo := (lo - carry * 2 ^ LOW) / 2 ^ coarse_bits in
  let kept := LOW - coarse_bits in
  let top := limit / 2 ^ kept in
  let total := clip (- top - 1) top hi * 2 ^ kept + lo in
  let beyond := if top <? hi then limit else - limit in
  clip (- limit) limit (if orb (top <? hi) (hi <? - top - 1) then beyond else total).

Lemma top_plus_one kept : 0 <= kept <= LOW -> (limit / 2 ^ kept + 1) * 2 ^ kept = limit + 1.
Proof.
  intros K; assert (P : 0 < 2 ^ kept) by (apply Z.pow_pos_nonneg; lia).
  assert (E : limit + 1 = 2 ^ (62 - kept) * 2 ^ kept).
  { rewrite <- Z.pow_add_r by (unfold LOW in K; cbn in K; lia).
    unfold limit; replace (62 - kept + kept) with 62 by ring; reflexivity. }
  enough (limit / 2 ^ kept = 2 ^ (62 - kept) - 1) as -> by lia.
  symmetry; apply Z.div_unique with (2 ^ kept - 1); lia.
Qed.

Theorem value_is_clipped_sum hi lo c : 0 <= c <= LOW -> 0 <= lo ->
  value hi lo c = clip (- limit) limit ((hi * 2 ^ LOW + lo) / 2 ^ c).
Proof.
  intros C L; unfold value; set (carry := lo / 2 ^ LOW); set (h := hi + carry).
  set (kept := LOW - c); set (top := limit / 2 ^ kept).
  pose proof (Z.div_mod lo (2 ^ LOW) ltac:(pose proof LOW_pos; lia)) as D; fold carry in D.
  pose proof (Z.mod_pos_bound lo (2 ^ LOW) LOW_pos) as M.
  set (l := lo - carry * 2 ^ LOW); assert (l0 : 0 <= l < 2 ^ LOW) by (unfold l; lia).
  assert (Pc : 0 < 2 ^ c) by (apply Z.pow_pos_nonneg; lia).
  assert (Pk : 0 < 2 ^ kept) by (apply Z.pow_pos_nonneg; unfold kept; lia).
  assert (Split : 2 ^ LOW = 2 ^ kept * 2 ^ c) by (rewrite <- Z.pow_add_r by (unfold kept; lia); f_equal; unfold kept; ring).
  assert (T : (top + 1) * 2 ^ kept = limit + 1) by (apply top_plus_one; unfold kept; lia).
  assert (S : (hi * 2 ^ LOW + lo) / 2 ^ c = h * 2 ^ kept + l / 2 ^ c).
  { replace (hi * 2 ^ LOW + lo) with (h * 2 ^ kept * 2 ^ c + l) by (unfold h, l; rewrite Split; ring).
    rewrite Z.div_add_l by lia; reflexivity. }
  assert (l1 : 0 <= l / 2 ^ c < 2 ^ kept).
  { split; [apply Z.div_pos; lia | apply Z.div_lt_upper_bound; lia]. }
  rewrite S; unfold clip at 1 3.
  destruct (Z.ltb_spec top h) as [A|A]; cbn [orb].
  - (* h >= top + 1: the sum is at least 2^62. *)
    assert ((top + 1) * 2 ^ kept <= h * 2 ^ kept) by (apply Z.mul_le_mono_nonneg_r; lia).
    assert (0 < limit) by reflexivity; lia.
  - destruct (Z.ltb_spec h (- top - 1)) as [B|B]; cbn [orb].
    + (* h <= - top - 2: the sum is below -2^62. *)
      assert (h * 2 ^ kept <= (- top - 2) * 2 ^ kept) by (apply Z.mul_le_mono_nonneg_r; lia).
      assert (0 < limit) by reflexivity; lia.
    + unfold clip; rewrite (Z.max_l h) by lia; rewrite (Z.min_l h) by lia; reflexivity.
Qed.

(* No intermediate result of `value` leaves 64 bits. *)
Theorem value_does_not_wrap hi lo c : 0 <= c <= LOW -> 0 <= lo <= 2 ^ 62 ->
  Z.abs (hi * 2 ^ LOW + lo) <= 2 ^ 82 ->
  let carry := lo / 2 ^ LOW in let h := hi + carry in
  let kept := LOW - c in let top := limit / 2 ^ kept in
  let kept_high := clip (- top - 1) top h * 2 ^ kept in let l := (lo - carry * 2 ^ LOW) / 2 ^ c in
  fits carry /\ fits h /\ fits (carry * 2 ^ LOW) /\ fits (lo - carry * 2 ^ LOW) /\ fits l /\ fits top /\
  fits (- top - 1) /\ fits kept_high /\ fits (kept_high + l).
Proof.
  intros C L S; cbn zeta; set (carry := lo / 2 ^ LOW); set (h := hi + carry).
  pose proof (Z.div_mod lo (2 ^ LOW) ltac:(pose proof LOW_pos; lia)) as D; fold carry in D.
  pose proof (Z.mod_pos_bound lo (2 ^ LOW) LOW_pos) as M.
  set (kept := LOW - c); assert (K : 0 <= kept <= LOW) by (unfold kept; lia).
  pose proof (top_plus_one kept K) as T; set (top := limit / 2 ^ kept) in *.
  assert (Pk : 0 < 2 ^ kept) by (apply Z.pow_pos_nonneg; lia).
  assert (Top : 0 <= top) by (apply Z.div_pos; [unfold limit; cbn; lia | lia]).
  assert (Pc : 0 < 2 ^ c) by (apply Z.pow_pos_nonneg; lia).
  assert (l0 : 0 <= lo - carry * 2 ^ LOW < 2 ^ LOW) by lia.
  assert (l1 : 0 <= (lo - carry * 2 ^ LOW) / 2 ^ c <= lo - carry * 2 ^ LOW).
  { split; [apply Z.div_pos; lia | apply Z.div_le_upper_bound; nia]. }
  assert (B : - (limit + 1) <= clip (- top - 1) top h * 2 ^ kept <= limit).
  { unfold clip; assert (- top - 1 <= Z.min (Z.max h (- top - 1)) top <= top) as Q by lia.
    set (x := Z.min _ top) in *; assert ((- top - 1) * 2 ^ kept <= x * 2 ^ kept) by (apply Z.mul_le_mono_nonneg_r; lia).
    assert (x * 2 ^ kept <= top * 2 ^ kept) by (apply Z.mul_le_mono_nonneg_r; lia); lia. }
  assert (top <= limit) by nia.
  unfold fits; change limit with (2 ^ 62 - 1) in *; change (2 ^ LOW) with 1048576 in *; repeat split; lia.
Qed.

(* The claim, for every division of the rows into blocks and parts. *)
Theorem totals_value t c : blocks_fit t -> Z.abs (whole t) <= 2 ^ 82 -> blocks t <= 2 ^ 42 -> 0 <= c <= LOW ->
  value (high t) (low t) c = clip (- limit) limit (whole t / 2 ^ c).
Proof.
  intros F S B C; destruct (limbs_stand_for_the_sum t F S B) as (E & L & _).
  rewrite value_is_clipped_sum by lia; now rewrite E.
Qed.

(* The value is a contraction of the sum. *)
Theorem value_contracts t u : blocks_fit t -> blocks_fit u -> Z.abs (whole t) <= 2 ^ 82 ->
  Z.abs (whole u) <= 2 ^ 82 -> blocks t <= 2 ^ 42 -> blocks u <= 2 ^ 42 ->
  Z.abs (value (high t) (low t) 0 - value (high u) (low u) 0) <= Z.abs (whole t - whole u).
Proof.
  intros; rewrite !totals_value by (easy || (unfold LOW; cbn; lia)).
  rewrite !Z.div_1_r; unfold clip; lia.
Qed.

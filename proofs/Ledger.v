(* The ledger's arithmetic (docs/proofs/ledger.md, steps 1, 2 and 4). Amounts are whole multiples of 2^-100. The cap
   is rounded down, and each charge is rounded up. So whatever is charged, in whatever order and however it is
   chosen, the sum of mu_i^2 of all charges is at most mu_cap^2. No operation lowers the total. What rounding
   wastes is less than one unit for each charge.

   Not here: that a sum of mu_i^2 below mu_cap^2 implies the guarantee (GDP-4), and that SQLite keeps its promises.

   Relied on by: `spend`, `_units_of` and `_units_down` of src/dpem/privacy/ledger.py. *)
From Coq Require Import QArith Qround ZArith List Lia Lqa.
From DPEM Require Import Constants.
Import ListNotations.
Open Scope Q_scope.

Definition UNITS : Z := (2 ^ Z.of_nat UNIT_BITS)%Z.

(* `_units_of` and `_units_down`: the cost of a plan is a fraction, its cap the square of a float. *)
Definition charge (cost : Q) : Z := Qceiling (cost * inject_Z UNITS).
Definition cap_units (mu : Q) : Z := Qfloor (mu * mu * inject_Z UNITS).

(* The state: charges that were written, newest first, and the total of the newest record. *)
Record state := { charges : list Q; spent : Z }.
Definition empty : state := {| charges := []; spent := 0 |}.

(* `spend`: the charge is written, or nothing is. *)
Definition spend (cap : Z) (s : state) (cost : Q) : state :=
  if (cap <? s.(spent) + charge cost)%Z then s
  else {| charges := cost :: s.(charges); spent := (s.(spent) + charge cost)%Z |}.

(* Any sequence of attempts. Each cost may depend on everything before it: the list is arbitrary. *)
Definition after (cap : Z) (attempts : list Q) : state := fold_left (spend cap) attempts empty.

Definition true_sum (l : list Q) : Q := fold_right Qplus 0 l.

Lemma units_pos : 0 < inject_Z UNITS. Proof. reflexivity. Qed.

Lemma ledger_invariant (P : state -> Prop) cap attempts : P empty ->
  (forall s cost, P s -> (s.(spent) + charge cost <= cap)%Z ->
     P {| charges := cost :: s.(charges); spent := (s.(spent) + charge cost)%Z |}) ->
  P (after cap attempts).
Proof.
  intros P0 PS; unfold after; revert P0; generalize empty.
  induction attempts as [|cost attempts IH]; intros s H; [easy|]; cbn; apply IH; unfold spend.
  destruct (Z.ltb_spec cap (s.(spent) + charge cost)); [easy | now apply PS].
Qed.

(* The integer sum is at least the true sum. *)
Theorem total_covers cap attempts : let s := after cap attempts in
  true_sum s.(charges) * inject_Z UNITS <= inject_Z s.(spent).
Proof.
  cbn; apply (ledger_invariant (fun s => true_sum s.(charges) * inject_Z UNITS <= inject_Z s.(spent))).
  - cbn; rewrite Qmult_0_l; apply Qle_refl.
  - intros s cost H _; cbn [charges spent true_sum fold_right].
    rewrite inject_Z_plus, Qmult_plus_distr_l, Qplus_comm.
    apply Qplus_le_compat; [exact H | apply Qle_ceiling].
Qed.

Theorem total_within_cap cap attempts : (0 <= cap)%Z -> ((after cap attempts).(spent) <= cap)%Z.
Proof. intros H; apply (ledger_invariant (fun s => (s.(spent) <= cap)%Z)); easy. Qed.

Lemma cap_nonneg mu : (0 <= cap_units mu)%Z.
Proof.
  change 0%Z with (Qfloor 0); apply Qfloor_resp_le.
  apply Qmult_le_0_compat; [| apply Qlt_le_weak, units_pos].
  destruct (Qlt_le_dec mu 0); nra.
Qed.

(* The filter: the sum of mu_i^2 never exceeds mu_cap^2. *)
Theorem filter_sound mu attempts : true_sum (after (cap_units mu) attempts).(charges) <= mu * mu.
Proof.
  apply Qmult_le_r with (z := inject_Z UNITS); [apply units_pos|].
  apply Qle_trans with (inject_Z (after (cap_units mu) attempts).(spent)); [apply total_covers|].
  apply Qle_trans with (inject_Z (cap_units mu)); [| apply Qfloor_le].
  rewrite <- Zle_Qle; apply total_within_cap, cap_nonneg.
Qed.

(* No refund: no attempt lowers the total or removes a charge. *)
Theorem no_refund cap s cost : 0 <= cost ->
  (s.(spent) <= (spend cap s cost).(spent))%Z /\
  ((spend cap s cost).(charges) = s.(charges) \/ (spend cap s cost).(charges) = cost :: s.(charges)).
Proof.
  intros H; unfold spend; destruct (Z.ltb_spec cap (s.(spent) + charge cost)); cbn; [auto with zarith|].
  split; [|now right].
  enough (0 <= charge cost)%Z by lia.
  change 0%Z with (Qceiling 0); apply Qceiling_resp_le, Qmult_le_0_compat; [easy|].
  apply Qlt_le_weak, units_pos.
Qed.

(* Rounding wastes less than one unit for each charge. *)
Theorem waste cap attempts : let s := after cap attempts in
  inject_Z s.(spent) <= true_sum s.(charges) * inject_Z UNITS + inject_Z (Z.of_nat (length s.(charges))).
Proof.
  cbn; apply (ledger_invariant (fun s => inject_Z s.(spent)
    <= true_sum s.(charges) * inject_Z UNITS + inject_Z (Z.of_nat (length s.(charges))))).
  - apply Qle_refl.
  - intros s cost H _; cbn [charges spent true_sum fold_right length].
    rewrite Nat2Z.inj_succ, <- Z.add_1_r, !inject_Z_plus, Qmult_plus_distr_l.
    pose proof (Qceiling_lt (cost * inject_Z UNITS)) as C; fold (charge cost) in C.
    assert (inject_Z (charge cost - 1) == inject_Z (charge cost) - 1) as E
      by (unfold Z.sub; rewrite inject_Z_plus; reflexivity).
    rewrite E in C; change (inject_Z 1) with 1; fold (true_sum s.(charges)); lra.
Qed.

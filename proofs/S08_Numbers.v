(* (S-8) Numbers from 0 to t. The row adds a number v with 0 <= v <= t. Alone, it moves the sum by at most t under
   either relation. Beside a count of weight t, an added or removed row has norm at most sqrt 2 t; a replaced
   row moves the sum by at most t, and the count does not move.

   Relied on by: `interval` of src/dpem/privacy/sensitivity.py; IntervalSum and SquaredDistances of
   src/dpem/statistics/simple.py, FrameSizes, and the score of src/dpem/models/gaussian_mixture/score.py. *)
From DPEM Require Import Tables.

Inductive number_entry := Number | Weight.

Definition numbers {Row} (t : R) (v : Row -> R) (r : Row) (e : number_entry) : R :=
  match e with Number => v r | Weight => t end.

Lemma interval_difference t x y : 0 <= x <= t -> 0 <= y <= t -> (x - y) * (x - y) <= t * t.
Proof. intros; nra. Qed.

Theorem S8_alone Row (v : Row -> R) t : (forall r, 0 <= v r <= t) ->
  sensitivity AddRemove (numbers t v) (norm [Number]) t /\
  sensitivity ReplaceOne (numbers t v) (norm [Number]) t.
Proof.
  intros V; split.
  - apply add_remove_of_rows; [apply norm_seminorm|]; intros r; pose proof (V r).
    apply norm_le; [lra|]; unfold dot; cbn; nra.
  - apply replace_one_of_rows; [apply norm_seminorm|]; intros r r'; pose proof (V r); pose proof (V r').
    apply norm_le; [lra|]; unfold dot; cbn; pose proof (interval_difference t (v r) (v r')); lra.
Qed.

Theorem S8_counted Row (v : Row -> R) t : (forall r, 0 <= v r <= t) ->
  sensitivity AddRemove (numbers t v) (norm [Number; Weight]) (sqrt 2 * t) /\
  sensitivity ReplaceOne (numbers t v) (norm [Number; Weight]) t.
Proof.
  intros V; split.
  - apply add_remove_of_rows; [apply norm_seminorm|]; intros r; pose proof (V r); pose proof sqrt2_pos.
    apply norm_le; [apply Rmult_le_pos; lra|].
    replace (sqrt 2 * t * (sqrt 2 * t)) with (sqrt 2 * sqrt 2 * (t * t)) by ring; rewrite sqrt2_square.
    unfold dot; cbn; nra.
  - apply replace_one_of_rows; [apply norm_seminorm|]; intros r r'; pose proof (V r); pose proof (V r').
    apply norm_le; [lra|]; unfold dot; cbn; pose proof (interval_difference t (v r) (v r')); lra.
Qed.

(* The numbers 0 and t reach the bounds. *)
Theorem S8_reached : forall t, 0 <= t -> let v (r : bool) := if r then t else 0 in
  reached AddRemove (numbers t v) (norm [Number]) t /\
  reached ReplaceOne (numbers t v) (norm [Number]) t /\
  reached AddRemove (numbers t v) (norm [Number; Weight]) (sqrt 2 * t) /\
  reached ReplaceOne (numbers t v) (norm [Number; Weight]) t.
Proof.
  intros t P v.
  assert (A : neighbours AddRemove [true] []) by now apply row_removed with true [].
  assert (B : neighbours ReplaceOne [true] [false]) by now apply row_replaced with true false [].
  assert (S : sqrt (2 * (t * t)) = sqrt 2 * t) by (rewrite sqrt_mult_alt by lra; now rewrite sqrt_square).
  repeat split; [exists [true], [] | exists [true], [false] | exists [true], [] | exists [true], [false]];
    (split; [easy|]); unfold norm, dot, move, total, numbers, v; cbn [sum].
  - replace (_ + 0) with (t * t) by ring; now apply sqrt_square.
  - replace (_ + 0) with (t * t) by ring; now apply sqrt_square.
  - rewrite <- S; f_equal; ring.
  - replace (_ + _) with (t * t) by ring; now apply sqrt_square.
Qed.

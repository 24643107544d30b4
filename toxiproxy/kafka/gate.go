package kafka

import "time"

type gateState int

const (
	gateUndecided gateState = iota // the frame's beginning has not come yet
	gateWaits
	gateOpen
	gateDrops
	gateCuts
)

// gate stands before a frame that a rule hit, or might.
type gate struct {
	state       gateState
	since       time.Time
	correlation int32
	trips       []*trip // that the frame has still before it; the first decides
}

// judge is the state of the gate, by now.
func (g *gate) judge(h *half, now time.Time) gateState {
	if g.state == gateUndecided && (h.ended || now.Sub(g.since) >= headWithin) {
		h.frame.passes()
		g.state = gateOpen
	}
	for g.state == gateWaits {
		if len(g.trips) == 0 {
			g.state = gateOpen
			break
		}
		outcome := g.trips[0].outcome(now)
		if outcome == outcomeHeld {
			break
		}
		g.pass(h, outcome)
	}
	return g.state
}

// pass settles the first trip; one that is the end of the frame settles the others too.
func (g *gate) pass(h *half, outcome string) {
	settled := g.trips[:1]
	switch outcome {
	case outcomeDropped:
		g.state, settled = gateDrops, g.trips
	case outcomeClosed:
		g.state, settled = gateCuts, g.trips
	default:
		if h.up && g.trips[0].action == actionLate {
			h.late = append(h.late, g.correlation)
			h.lateTill = time.Now().Add(answerWithin)
		}
	}
	for _, t := range settled {
		theBook.settle(t, outcome)
	}
	g.trips = g.trips[len(settled):]
}

// outcome is what is to become of the frame now, as far as this trip goes.
func (t *trip) outcome(now time.Time) string {
	switch t.action {
	case actionDrop:
		return outcomeDropped
	case actionClose:
		return outcomeClosed
	}
	switch t.rule.now.Load().Release {
	case releaseDeliver:
		return outcomeDelivered
	case releaseDrop:
		return outcomeDropped
	case releaseClose:
		return outcomeClosed
	}
	switch {
	case now.Before(t.until()):
		return outcomeHeld
	case t.action == actionDelay:
		return outcomeDelivered
	}
	return outcomeMaxHold
}

// until is when it is delivered without a release.
func (t *trip) until() time.Time {
	ms := t.rule.now.Load().MaxHoldMs
	if t.action == actionDelay {
		ms = t.rule.now.Load().DelayMs
	}
	return t.tripped.Add(time.Duration(ms) * time.Millisecond)
}

// survives is whether the frame is delivered although its client has gone.
func (g *gate) survives() bool {
	return g.state == gateWaits && (g.trips[0].action == actionLate || g.trips[0].action == actionDelay)
}

// waitsFor is when the gate is to be judged again.
func (g *gate) waitsFor() (changed <-chan struct{}, until time.Time) {
	if g.state == gateUndecided {
		return nil, g.since.Add(headWithin)
	}
	return g.trips[0].rule.now.Load().ended, g.trips[0].until()
}

// free opens the gate, unless the frame must not pass.
func (g *gate) free(h *half) {
	if g.state == gateUndecided {
		g.state = gateOpen
	}
	for g.state == gateWaits && len(g.trips) > 0 {
		switch t := g.trips[0]; t.action {
		case actionDrop:
			g.pass(h, outcomeDropped)
		case actionClose:
			g.pass(h, outcomeClosed)
		default:
			g.pass(h, outcomeDelivered)
		}
	}
}

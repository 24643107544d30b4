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

// gate stands before a frame that a rule has stopped, or might stop.
type gate struct {
	state         gateState
	since         time.Time
	correlation   int32
	interceptions []*interception // that the frame has still before it; the first decides
}

// judge is the state of the gate, by now.
func (g *gate) judge(h *half, now time.Time) gateState {
	if g.state == gateUndecided && (h.ended || now.Sub(g.since) >= headWithin) {
		h.frame.passes()
		g.state = gateOpen
	}
	for g.state == gateWaits {
		if len(g.interceptions) == 0 {
			g.state = gateOpen
			break
		}
		outcome := g.interceptions[0].outcome(now)
		if outcome == outcomeHeld && g.interceptions[0].action == actionAnswer && h.frame.gate != g { // its frame has come whole
			outcome = h.answerFrame(g)
		}
		if outcome == outcomeHeld {
			break
		}
		g.pass(h, outcome)
	}
	return g.state
}

// pass settles the first interception; one that is the end of the frame settles the others too.
func (g *gate) pass(h *half, outcome string) {
	settled := g.interceptions[:1]
	switch outcome {
	case outcomeAnswered: // is settled when the answer is given
		g.state, g.interceptions = gateDrops, nil
		return
	case outcomeDropped:
		g.state, settled = gateDrops, g.interceptions
		if h.up {
			h.forgets(g.correlation)
		}
	case outcomeClosed:
		g.state, settled = gateCuts, g.interceptions
	default:
		if h.up && g.interceptions[0].action == actionLate {
			h.late = append(h.late, g.correlation)
			h.lateTill = time.Now().Add(answerWithin)
		}
	}
	for _, i := range settled {
		allRules.settle(i, outcome)
	}
	g.interceptions = g.interceptions[len(settled):]
}

// outcome is what is to become of the frame now, as far as this interception goes.
func (i *interception) outcome(now time.Time) string {
	switch i.rule.now.Load().Release {
	case releaseDeliver:
		return outcomeDelivered
	case releaseDrop:
		return outcomeDropped
	case releaseClose:
		return outcomeClosed
	}
	if now.Before(i.until()) {
		return outcomeHeld
	}
	return outcomeMaxHold
}

// until is when the frame is delivered without a release.
func (i *interception) until() time.Time {
	return i.since.Add(time.Duration(i.rule.now.Load().MaxHoldMs) * time.Millisecond)
}

// survives is whether the frame is delivered although its client has gone.
func (g *gate) survives() bool {
	return g.state == gateWaits && g.interceptions[0].action == actionLate
}

// gathers is whether a frame must come whole, however long it is, before the gate can be judged.
func (g *gate) gathers() bool {
	return g.state == gateWaits && g.interceptions[0].action == actionAnswer
}

// waitsFor is when the gate is to be judged again.
func (g *gate) waitsFor() (changed <-chan struct{}, until time.Time) {
	if g.state == gateUndecided {
		return nil, g.since.Add(headWithin)
	}
	return g.interceptions[0].rule.now.Load().ended, g.interceptions[0].until()
}

// free opens the gate, whatever its rules say.
func (g *gate) free(h *half) {
	if g.state == gateUndecided {
		g.state = gateOpen
	}
	for g.state == gateWaits && len(g.interceptions) > 0 {
		g.pass(h, outcomeDelivered)
	}
}

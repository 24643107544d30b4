package kafka

import (
	"fmt"
	"testing"
)

// The last one that was named is last, each is there once, and other requests name none.
func TestRemembersTransactionalIDs(t *testing.T) {
	var ids transactionalIDs
	for _, r := range []request{
		{api: initProducerID, transactional: "a"},
		{api: addPartitionsToTxn, transactional: "b"},
		{api: initProducerID, transactional: ""},
		{api: findCoordinator, transactional: "not yet"},
		{api: endTxn, transactional: "a"},
	} {
		ids.saw(&r)
	}
	found := ids.read()
	if len(found) != 2 || found[0].ID != "b" || found[1].ID != "a" || found[0].SeenNS > found[1].SeenNS || found[0].SeenNS == 0 {
		t.Errorf("got %+v", found)
	}
}

// A client with an id for every transaction does not fill the memory.
func TestForgetsTheOldestTransactionalIDs(t *testing.T) {
	var ids transactionalIDs
	for number := range maxIDs + 3 {
		ids.saw(&request{api: endTxn, transactional: fmt.Sprint(number)})
	}
	found := ids.read()
	if len(found) != maxIDs || found[0].ID != "3" || found[maxIDs-1].ID != fmt.Sprint(maxIDs+2) {
		t.Errorf("%d from %s on", len(found), found[0].ID)
	}
}

// What the API shows of a link is what its requests have named.
func TestShowsTransactionalIDs(t *testing.T) {
	bed := newFixture(t, "seen", "other")
	c := bed.dial("seen")
	c.send(t, transactionalFrame(initProducerID, 2, 1, "client", "orders-0"))
	c.answer(t)
	if seen, other := bed.read("seen").IDs, bed.read("other").IDs; len(seen) != 1 || seen[0].ID != "orders-0" || len(other) != 0 {
		t.Errorf("got %+v, and %+v of the other link", seen, other)
	}
}

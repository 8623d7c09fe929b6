package e2e

import (
	"fmt"
	"testing"
)

// The broker serves the consumers of the batons by their priority, which the
// tests of lock/rabbit show. Here it is seen that the user's number gets there.
func TestPriorityOfAWaiterIsThatOfItsConsumer(t *testing.T) {
	t.Parallel()
	broker := calmBroker(t)
	c := onBroker.contest(t, "mutex")
	holder := c.run(plain)
	holder.awaitRunning()
	var others []*berth
	for _, flags := range [][]string{nil, {"--priority=7"}, {"--priority=100"}} {
		others = append(others, c.run(plain, flags...))
	}
	code := fmt.Sprintf(`lists:sort([element(2, rabbit_misc:table_lookup(proplists:get_value(arguments, C), <<"x-priority">>)) ||
		C <- rabbit_amqqueue:consumers_all(<<"/">>), element(4, proplists:get_value(queue_name, C)) =:= <<"%s-W">>])`, c.name)
	const want = "[0,7,100,1000]" // the last is the holder's
	var got string
	var err error
	until(t, "consumers of the batons", func() bool {
		got, err = broker.Eval(t.Context(), code)
		return err != nil || got == want
	}, func() string { return fmt.Sprintf("they have the priorities %s, not %s", got, want) })
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range others {
		b.stays()
	}
}

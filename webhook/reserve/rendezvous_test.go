package reserve

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestRendezvousOwnerIsStable(t *testing.T) {
	replicas := []string{"10.0.0.1:9443", "10.0.0.2:9443", "10.0.0.3:9443"}
	random := rand.New(rand.NewPCG(1, 1))
	owned := map[string]int{}
	for i := range 3000 {
		key := fmt.Sprint("core/shop/web-", i)
		owner := RendezvousOwner(key, replicas)
		owned[owner]++
		shuffled := slices.Clone(replicas)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if got := RendezvousOwner(key, shuffled); got != owner {
			t.Fatalf("owner of %s is %s or %s, depending on the order of the replicas", key, owner, got)
		}
		fewer := slices.DeleteFunc(shuffled, func(r string) bool { return r == replicas[i%3] })
		if got := RendezvousOwner(key, fewer); owner != replicas[i%3] && got != owner {
			t.Fatalf("owner of %s changed from %s to %s although %s left", key, owner, got, replicas[i%3])
		}
	}
	for _, replica := range replicas {
		if share := owned[replica]; share < 850 || share > 1150 {
			t.Errorf("%s owns %d of 3000 keys, want about a third", replica, share)
		}
	}
}

package quota_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// The table of docs/concepts/scheduling.md shows what happens to removals if the floor, 6, must tolerate the loss of any of three zones.
func TestWorkedExampleInTheDocs(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/concepts/scheduling.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+), (\d+), (\d+)( and two under way)? \| (\d+), (\d+), (\d+) \| (admitted|refused)(, down to 6)? \|`).FindAllStringSubmatch(string(raw), -1)
	if len(rows) < 7 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		t.Run(row[0], func(t *testing.T) {
			n := func(i int) int32 { v, _ := strconv.Atoi(row[i]); return int32(v) }
			p := spread(protector(6, n(1)+n(2)+n(3)), zone)
			placed(p, 0, in("a", n(1)), in("b", n(2)), in("c", n(3)))
			removal := func(i int) quota.Removal {
				return quota.Removal{Cell: "c0", PodUID: types.UID(fmt.Sprint("pod-", i)), PodName: fmt.Sprint("pod-", i), Domain: quota.Domain{TopologyKey: zone, Name: "a"}}
			}
			open := int32(0)
			if row[4] != "" {
				open = 2
				for _, v := range quota.Decide(p, []quota.Removal{removal(1), removal(2)}) {
					if v.Outcome != quota.Reserved {
						t.Fatalf("%+v", v)
					}
				}
			}
			for i, of := range []int32{n(1), n(2), n(3)} {
				if left := n(1) + n(2) + n(3) - of - open; left != n(5+i) {
					t.Errorf("%d pods remain without domain %d, the page says %d", left, i, n(5+i))
				}
			}
			if v := quota.Decide(p, []quota.Removal{removal(3)})[0]; (v.Outcome == quota.Reserved) != (row[8] == "admitted") || row[8] == "refused" && v.Outcome != quota.DeniedDomainLoss {
				t.Errorf("Decide() = %+v, the page says %s", v, row[8])
			}
			if row[9] == "" {
				return
			}
			admitted := int32(0)
			for i := range 20 {
				if quota.Decide(p, []quota.Removal{removal(3 + i)})[0].Outcome == quota.Reserved {
					admitted++
				}
			}
			if left := n(1) + n(2) + n(3) - 1 - admitted; left != 6 {
				t.Errorf("%d pods remain, want the floor", left)
			}
		})
	}
}

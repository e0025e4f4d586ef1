package policy

import (
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

func rolling(surge, unavailable string) appsv1.DeploymentStrategy {
	strategy := appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{}}
	for _, field := range []struct {
		to   **intstr.IntOrString
		from string
	}{{&strategy.RollingUpdate.MaxSurge, surge}, {&strategy.RollingUpdate.MaxUnavailable, unavailable}} {
		if field.from != "" {
			value := intstr.Parse(field.from)
			*field.to = &value
		}
	}
	return strategy
}

func TestFloor(t *testing.T) {
	for claim, c := range map[string]struct {
		replicas int32
		strategy appsv1.DeploymentStrategy
		want     int32
	}{
		"30 % of 10 is 3":                                               {10, rolling("25%", "30%"), 7},
		"30 % of 20 is 6":                                               {20, rolling("25%", "30%"), 14},
		"unavailable rounds down: 25 % of 10 is 2":                      {10, rolling("25%", "25%"), 8},
		"unavailable rounds down to 0: 25 % of 3":                       {3, rolling("25%", "25%"), 3},
		"surge rounds up, so 1 % of 3 is room enough for a step":        {3, rolling("1%", "0"), 3},
		"without surge and unavailable one pod may be unavailable":      {3, rolling("0", "0"), 2},
		"the same by percentages":                                       {3, rolling("0%", "0%"), 2},
		"the same when unavailable rounds down to 0 without a surge":    {3, rolling("0", "25%"), 2},
		"one replica without surge and unavailable leaves a floor of 0": {1, rolling("0", "0"), 0},
		"one replica with the default strategy keeps its pod":           {1, appsv1.DeploymentStrategy{}, 1},
		"no strategy is 25 %":                                           {100, appsv1.DeploymentStrategy{}, 75},
		"no unavailable is 25 %":                                        {100, rolling("1", ""), 75},
		"no surge is 25 %":                                              {4, rolling("", "0"), 4},
		"an absolute number counts as it is":                            {10, rolling("0", "4"), 6},
		"more unavailable than replicas is all of them":                 {3, rolling("0", "10"), 0},
		"100 % unavailable leaves a floor of 0":                         {7, rolling("0", "100%"), 0},
		"scaled to 0":                                                   {0, rolling("25%", "25%"), 0},
		"the largest Deployment does not overflow":                      {1<<31 - 1, rolling("1000%", "1%"), 2126008811},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := floor(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &c.replicas, Strategy: c.strategy}})
			if err != nil || got != c.want {
				t.Errorf("floor = %d, %v; want %d", got, err, c.want)
			}
		})
	}
}

func TestFloorWithoutReplicas(t *testing.T) {
	got, err := floor(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Strategy: rolling("1", "0")}})
	if err != nil || got != 1 {
		t.Errorf("floor = %d, %v; want 1", got, err)
	}
}

func TestFloorRejectsInvalidNumbers(t *testing.T) {
	for field, strategy := range map[string]appsv1.DeploymentStrategy{
		"maxSurge":       rolling("many", "1"),
		"maxUnavailable": rolling("1", "some"),
	} {
		got, err := floor(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Strategy: strategy}})
		if err == nil || !strings.Contains(err.Error(), "spec.strategy.rollingUpdate."+field) {
			t.Errorf("floor with a bad %s = %d, %v; want an error that names the field", field, got, err)
		}
	}
}

// step is the documented rule, found by search and not by division: among the integers k, the smallest with 100k >= percent x
// replicas, or the greatest with 100k <= percent x replicas.
func step(value string, replicas int64, up bool) int64 {
	digits, isPercent := strings.CutSuffix(value, "%")
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		panic(err)
	}
	if !isPercent {
		return number
	}
	k := int64(0)
	for 100*k < number*replicas {
		k++
	}
	if !up && 100*k > number*replicas {
		k--
	}
	return k
}

func TestFloorMatchesTheDocumentedRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(0, 2000).Draw(t, "replicas")
		value := rapid.OneOf(
			rapid.Map(rapid.IntRange(0, 2500), strconv.Itoa),
			rapid.Map(rapid.IntRange(0, 100), func(percent int) string { return strconv.Itoa(percent) + "%" }),
		)
		surge, unavailable := value.Draw(t, "surge"), value.Draw(t, "unavailable")

		missing := step(unavailable, int64(replicas), false)
		if missing == 0 && step(surge, int64(replicas), true) == 0 {
			missing = 1
		}
		want := max(0, int64(replicas)-missing)

		got, err := floor(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &replicas, Strategy: rolling(surge, unavailable)}})
		if err != nil || int64(got) != want {
			t.Fatalf("floor of %d replicas, surge %s, unavailable %s = %d, %v; want %d", replicas, surge, unavailable, got, err, want)
		}
	})
}

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 0, 100)
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for claim, c := range map[string]struct {
		times []time.Duration
		q     float64
		want  time.Duration
	}{
		"none is 0":                      {nil, 0.99, 0},
		"one is each percentile":         {[]time.Duration{7}, 0.01, 7},
		"of few, the 99th is the last":   {[]time.Duration{3, 9, 5}, 0.99, 9},
		"of a hundred, it is the 99th":   {hundred, 0.99, 99},
		"the median of an even number":   {[]time.Duration{4, 1, 3, 2}, 0.5, 2},
		"the whole is the slowest of it": {hundred, 1, 100},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := percentile(c.times, c.q); got != c.want {
				t.Errorf("percentile(%v) = %d, want %d", c.q, got, c.want)
			}
		})
	}
}

func TestAnswersAreThoseToRemovalsOfPods(t *testing.T) {
	const prefix = `I1129 05:03:31.123456    1234 round_trippers.go:632] "Response" verb=`
	ended := time.Date(0, time.November, 29, 5, 3, 31, 123456000, time.UTC)
	const pod = `url="https://127.0.0.1:1/api/v1/namespaces/default/pods/web-1`
	for claim, c := range map[string]struct {
		line string
		want []answer
	}{
		"a refused deletion":    {prefix + `"DELETE" ` + pod + `" status="429 Too Many Requests" milliseconds=9702`, []answer{{429, 9702 * time.Millisecond, ended}}},
		"an eviction":           {prefix + `"POST" ` + pod + `/eviction?timeout=1s" status="500 Internal Server Error" milliseconds=4`, []answer{{500, 4 * time.Millisecond, ended}}},
		"no answer":             {prefix + `"DELETE" ` + pod + `" status="" milliseconds=4`, nil},
		"a list":                {prefix + `"GET" ` + pod + `" status="200 OK" milliseconds=4`, nil},
		"another kind":          {prefix + `"DELETE" url="https://127.0.0.1:1/api/v1/namespaces/default/configmaps/pods" status="200 OK" milliseconds=4`, nil},
		"a creation beside one": {prefix + `"POST" url="https://127.0.0.1:1/api/v1/namespaces/default/pods" status="201 Created" milliseconds=4`, nil},
	} {
		t.Run(claim, func(t *testing.T) {
			if diff := cmp.Diff(c.want, answers(c.line+"\n"), cmp.AllowUnexported(answer{})); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValuesAreCountedFromCommands(t *testing.T) {
	for claim, c := range map[string]struct {
		command []string
		want    int
	}{
		"an installation without values":     {[]string{"helm", "install", "breakwater", "charts/breakwater", "--wait"}, 0},
		"each assignment of one flag":        {[]string{"helm", "install", "breakwater", ".", "--set", "role=single,tls.mode=secret"}, 2},
		"an assignment in the same argument": {[]string{"helm", "install", "breakwater", ".", "--set-string=a=b"}, 1},
		"an escaped comma is part of one":    {[]string{"helm", "install", "breakwater", ".", "--set", `a=b\,c`}, 1},
		"a file":                             {[]string{"helm", "install", "breakwater", ".", "-f", "values.yaml", "--values=more.yaml"}, 2},
		"a file of kubectl has no values":    {[]string{"kubectl", "apply", "-f", "pods.yaml"}, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := valuesIn(c.command); got != c.want {
				t.Errorf("valuesIn(%q) = %d, want %d", c.command, got, c.want)
			}
		})
	}
}

func TestOutageCountsInternalErrorsOfTheDrainOnly(t *testing.T) {
	var got report
	begin := time.Date(0, 1, 1, 3, 0, 0, 0, time.UTC)
	ended := func(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }
	drain := []answer{{429, 8 * time.Second, ended(8)}, {internalError, 7 * time.Second, ended(9)}, {internalError, 10 * time.Millisecond, ended(9)}}
	got.setOutage(drain, []answer{{internalError, 40 * time.Millisecond, ended(10)}, {200, time.Hour, ended(11)}})
	want := report{
		DrainInternalErrorsInOutage: 2, DenialsInOutage: 4, FirstDenialMillisecondsInOutage: 8000, DenialMillisecondsInOutage: 40,
		AnswersInOutage: map[string]int{"200": 1, "429": 1, "500": 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestPagesToRead(t *testing.T) {
	install, label, remove := "helm install b charts/b --wait", "kubectl label d web", "kubectl delete pods"
	commands := []string{install, label, remove}
	for claim, c := range map[string]struct {
		pages []string
		want  int
	}{
		"one page has all commands":       {[]string{"other", label, "helm install b b-1.tgz --wait " + label + remove}, 1},
		"the first page that has most":    {[]string{install, label + remove}, 2},
		"each command has its page":       {[]string{install, label, remove}, 3},
		"a command is nowhere":            {[]string{install, label}, 0},
		"flags of an installation differ": {[]string{"helm install b b-1.tgz " + label + remove}, 0},
		"nothing is documented":           {nil, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := pagesToRead(c.pages, commands, "charts/b")
			if got != c.want || (err != nil) != (c.want == 0) {
				t.Errorf("pagesToRead() = %d, %v, want %d", got, err, c.want)
			}
		})
	}
}

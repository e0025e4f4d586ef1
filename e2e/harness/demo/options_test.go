package demo

import (
	"strings"
	"testing"
)

func TestValidateNamesTheFlag(t *testing.T) {
	good := Options{Pods: 60, Floor: 40, Clients: 64, ReportDir: "demo-report", Binaries: []string{"bin"}}
	if err := good.Validate(); err != nil {
		t.Fatalf("Validate() of the defaults: %v", err)
	}
	for claim, c := range map[string]struct {
		change func(*Options)
		want   []string
	}{
		"a floor above the pods": {func(o *Options) { o.Floor = 61 }, []string{"--floor 61", "less than --pods (60)"}},
		"a floor of all pods":    {func(o *Options) { o.Floor = 60 }, []string{"--floor 60", "less than --pods (60)"}},
		"a floor of 0":           {func(o *Options) { o.Floor = 0 }, []string{"--floor 0", "at least 1"}},
		"too few pods":           {func(o *Options) { o.Pods, o.Floor = 3, 2 }, []string{"--pods 3", "from 4"}},
		"too many pods":          {func(o *Options) { o.Pods = 1001 }, []string{"--pods 1001", "to 1000"}},
		"no clients":             {func(o *Options) { o.Clients = 0 }, []string{"--clients 0"}},
		"no folder":              {func(o *Options) { o.ReportDir = "" }, []string{"--report-dir"}},
		"no binaries":            {func(o *Options) { o.Binaries = nil }, []string{"--binaries", "make demo"}},
		"several errors":         {func(o *Options) { o.Pods, o.Clients = 0, -1 }, []string{"--pods 0", "--clients -1", "--floor 40"}},
	} {
		t.Run(claim, func(t *testing.T) {
			options := good
			c.change(&options)
			err := options.Validate()
			if err == nil {
				t.Fatal("Validate() returned no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not contain %q: %v", want, err)
				}
			}
		})
	}
}

// Command dashboards writes the Grafana dashboards of the chart.
//
//	go run ./hack/dashboards charts/breakwater/files/dashboards
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "dashboards: want one argument, the directory to write to")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// write writes the dashboards to the folder, and removes all others.
func write(folder string) error {
	old, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	dashboards, err := all()
	if err != nil {
		return err
	}
	for name, d := range dashboards {
		raw, err := encode(d)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".json"), raw, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// all returns the dashboards by file name.
func all() (map[string]dashboard.Dashboard, error) {
	built := map[string]dashboard.Dashboard{}
	for name, build := range map[string]func() (dashboard.Dashboard, error){"fleet": fleet, "protector": protector, "rings": rings, "webhook": webhook} {
		var err error
		if built[name], err = build(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return built, nil
}

// encode keeps >, < and & in expressions, so that an engineer can read them. The SDK's own encoders escape them.
func encode(d dashboard.Dashboard) ([]byte, error) {
	text, err := json.MarshalIndent(d, "", " ")
	return append([]byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(text))), '\n'), err
}

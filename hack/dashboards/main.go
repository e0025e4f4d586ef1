// Command dashboards writes the Grafana dashboards of the chart.
//
//	go run ./hack/dashboards charts/breakwater/files/dashboards
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	for name, dashboard := range all() {
		raw, err := encode(dashboard)
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
func all() map[string]Dashboard {
	return map[string]Dashboard{"fleet": fleet(), "protector": protector(), "webhook": webhook()}
}

// encode does not escape > and & in expressions, so that people can read them.
func encode(dashboard Dashboard) ([]byte, error) {
	text := &bytes.Buffer{}
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(dashboard)
	return text.Bytes(), err
}

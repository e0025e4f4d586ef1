// Command dashboards writes the dashboards of the chart, as Grafana takes them.
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
		fmt.Fprintln(os.Stderr, "dashboards: want one argument, the folder to write to")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// write makes the folder hold the dashboards, and no others.
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

// all are the dashboards by the names of their files.
func all() map[string]Dashboard {
	return map[string]Dashboard{"fleet": fleet(), "protector": protector(), "webhook": webhook()}
}

// encode leaves > and & in expressions as they are, to be read by people.
func encode(dashboard Dashboard) ([]byte, error) {
	text := &bytes.Buffer{}
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(dashboard)
	return text.Bytes(), err
}

package federation

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// topologies is embedded, so that a program can start a federation from any working directory.
//
//go:embed topologies
var topologies embed.FS

// LoadTopology reads a topology file. Its error joins all errors in the file, each as FILE:LINE: FIELD: error.
func LoadTopology(file string) (*Topology, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the topology: %w", err)
	}
	return parseTopology(file, raw)
}

// Embedded returns a topology that is built into the program, by the name of its file in topologies/.
func Embedded(name string) (*Topology, error) {
	file := path.Join("topologies", name+".yaml")
	raw, err := topologies.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil, fmt.Errorf("unknown topology %q: want %s, or the path of a topology file",
			name, strings.Join(EmbeddedNames(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("read the topology %q: %w", name, err)
	}
	return parseTopology(file, raw)
}

// EmbeddedNames returns the names that Embedded accepts, sorted.
func EmbeddedNames() []string {
	entries, err := topologies.ReadDir("topologies")
	if err != nil {
		panic(err) // an embedded directory can always be listed
	}
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	return names
}

func parseTopology(file string, raw []byte) (*Topology, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s:1: the file is empty: want name and clusters", file)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, fmt.Errorf("%s:%d: a second document: want one topology in a file", file, second.Line)
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	d := &topologyDecoder{file: file}
	topology := d.topology(document.Content[0])
	if err := errors.Join(d.errs...); err != nil {
		return nil, err
	}
	return topology, nil
}

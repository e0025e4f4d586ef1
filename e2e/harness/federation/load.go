package federation

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

// topologies is embedded, so that a program can start a federation from any working directory.
//
//go:embed topologies
var topologies embed.FS

// LoadTopology reads a topology file. Its error joins all invalid fields.
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
	topology := &Topology{}
	if err := yaml.UnmarshalStrict(raw, topology); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := topology.validate().ToAggregate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return topology, nil
}

package e2e

import (
	"bytes"
	"flag"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// selectsTests reports whether the flags of the test binary select a test or a benchmark of the package. It reports true if it cannot
// determine that.
func selectsTests(m *testing.M) bool {
	if !flag.Parsed() {
		flag.Parse()
	}
	if flag.Lookup("test.list").Value.String() != "" {
		return false
	}
	pattern := flag.Lookup("test.run").Value.String()
	if flag.Lookup("test.bench").Value.String() != "" || pattern == "" {
		return true
	}
	pattern, _, hasSubtests := strings.Cut(pattern, "/")
	if _, err := regexp.Compile(pattern); err != nil || hasSubtests && strings.Contains(pattern, "|") {
		return true
	}
	names, err := listTests(m, pattern)
	return err != nil || names != ""
}

// listTests returns the names of the tests, benchmarks and examples of the package that match a pattern, one in a line. The flag -list is
// the only interface to them, and makes Run print the names and run no test.
func listTests(m *testing.M, pattern string) (string, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer read.Close()
	var names bytes.Buffer
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(&names, read)
		copied <- err
	}()
	stdout := os.Stdout
	os.Stdout = write
	if err = flag.Set("test.list", pattern); err == nil {
		m.Run()
		err = flag.Set("test.list", "")
	}
	os.Stdout = stdout
	_ = write.Close() // the copy ends
	if copyErr := <-copied; err == nil {
		err = copyErr
	}
	return names.String(), err
}

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// readPages returns the texts of the README and of the pages in a folder.
func readPages(readme, folder string) (pages []string, err error) {
	paths := []string{readme}
	err = filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return err
	})
	for _, path := range paths {
		raw, readErr := os.ReadFile(path) //nolint:gosec // a page of this repository
		if readErr != nil {
			return nil, readErr
		}
		pages = append(pages, string(raw))
	}
	return pages, err
}

// pagesToRead counts the pages that a user reads to find all commands: each time the page that has most of those that are missing. The path of the
// chart, a word of helm install, differs between this repository and a release.
func pagesToRead(pages, commands []string, chart string) (count int, err error) {
	for len(commands) > 0 {
		missing := commands
		for _, page := range pages {
			var left []string
			for _, command := range commands {
				before, after, _ := strings.Cut(command, chart)
				if at := strings.Index(page, before); at < 0 || !strings.Contains(page[at:], after) {
					left = append(left, command)
				}
			}
			if len(left) < len(missing) {
				missing = left
			}
		}
		if len(missing) == len(commands) {
			return 0, fmt.Errorf("no page has %q", commands)
		}
		commands = missing
		count++
	}
	return count, nil
}

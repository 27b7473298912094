// An application in Go that reads a vault through the extension: `seawall-reader EXTENSION URI`.
//
// It prints the number of commits that it sees, and then answers each line of its input:
//
//	N        waits until it sees N commits, and prints how many it sees
//	at WHEN  shows another point, by the pragma, and prints its commits and its transaction
//	latest   shows the newest point, by the function, and prints its commits
package main

import (
	"bufio"
	"database/sql"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
)

func main() {
	extension, uri := os.Args[1], os.Args[2]
	sql.Register("loads", &sqlite3.SQLiteDriver{Extensions: []string{extension}})
	loader, err := sql.Open("loads", ":memory:")
	check(err)
	check(loader.Ping())
	view, err := sql.Open("sqlite3", uri)
	check(err)
	// Each connection of the pool shows its own point.
	view.SetMaxOpenConns(1)
	fmt.Println(commits(view))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		word, when, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "at":
			_, err := view.Exec("PRAGMA seawall_time = '" + when + "'")
			check(err)
			seen := commits(view)
			var transaction string
			check(view.QueryRow("SELECT seawall_txid()").Scan(&transaction))
			fmt.Println(seen, transaction)
		case "latest":
			var now string
			check(view.QueryRow("SELECT seawall_set_time('latest')").Scan(&now))
			fmt.Println(commits(view))
		default:
			wanted, err := strconv.Atoi(word)
			check(err)
			end := time.Now().Add(30 * time.Second)
			for commits(view) < wanted && time.Now().Before(end) {
				time.Sleep(20 * time.Millisecond)
			}
			fmt.Println(commits(view))
		}
	}
}

func commits(view *sql.DB) int {
	var count int
	check(view.QueryRow("SELECT commits FROM progress").Scan(&count))
	return count
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

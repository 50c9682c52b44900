// Package export writes reports and books in the formats of others: tables for people, CSV, JSON and XLSX; journals for hledger and beancount; lines of
// JSON for a warehouse. It is told what to write, and reads no books itself.
package export

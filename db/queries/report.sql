-- The queries of internal/report about the statements that were issued.

-- name: StatementAccount :one
SELECT l.ledger_id, a.account_no, a.account_id, a.type, a.currency, a.scale, a.name
  FROM ledger l
       CROSS JOIN LATERAL (SELECT * FROM account b WHERE b.ledger_id = l.ledger_id AND b.account_id = @account_id OFFSET 0) a
 WHERE l.name = @ledger;

-- name: StatementsOfAccount :many
-- The statements of an account, in their order, after one, without their content.
SELECT s.statement_no, a.account_id, s.basis, s.ordinal, s.starts_at, s.ends_at, s.zone, s.through, s.opening, s.closing, s.sha256, s.issued_at, s.issued_by
  FROM statement s JOIN account a USING (ledger_id, account_no)
 WHERE s.ledger_id = @ledger_id AND s.account_no = @account_no AND s.basis = @basis AND s.ordinal > @after
 ORDER BY s.ordinal LIMIT @page_size;

-- name: StatementsOfLedger :many
-- The statements of a ledger, the newest first, before one, without their content.
SELECT s.statement_no, a.account_id, s.basis, s.ordinal, s.starts_at, s.ends_at, s.zone, s.through, s.opening, s.closing, s.sha256, s.issued_at, s.issued_by
  FROM statement s JOIN account a USING (ledger_id, account_no) JOIN ledger l USING (ledger_id)
 WHERE l.name = @ledger AND s.statement_no < @before
 ORDER BY s.statement_no DESC LIMIT @page_size;

-- name: StatementsOfAccountBackwards :many
-- The statements of an account, the newest first, before one, without their content.
SELECT s.statement_no, a.account_id, s.basis, s.ordinal, s.starts_at, s.ends_at, s.zone, s.through, s.opening, s.closing, s.sha256, s.issued_at, s.issued_by
  FROM (SELECT b.ledger_id, b.account_no, b.account_id FROM account b JOIN ledger l USING (ledger_id)
         WHERE l.name = @ledger AND b.account_id = @account_id OFFSET 0) a
       CROSS JOIN LATERAL (SELECT * FROM statement t
                            WHERE t.ledger_id = a.ledger_id AND t.account_no = a.account_no AND t.statement_no < @before OFFSET 0) s
 ORDER BY s.statement_no DESC LIMIT @page_size;

-- name: LastStatement :many
-- The last statement of an account, if there is one.
SELECT s.statement_no, s.ordinal, s.ends_at, s.through, s.closing
  FROM statement s
 WHERE s.ledger_id = @ledger_id AND s.account_no = @account_no AND s.basis = @basis
 ORDER BY s.ordinal DESC LIMIT 1;

-- name: StatementEnding :many
-- The statement of an account that ends at a moment, if there is one.
SELECT s.statement_no, s.starts_at
  FROM statement s
 WHERE s.ledger_id = @ledger_id AND s.account_no = @account_no AND s.basis = @basis AND s.ends_at = @ends_at;

-- name: StatementByNumber :one
SELECT s.statement_no, a.account_id, a.account_no, s.ledger_id, s.basis, s.ordinal, s.starts_at, s.ends_at, s.zone, s.through, s.opening, s.closing,
       s.content, s.sha256, s.issued_at, s.issued_by
  FROM statement s JOIN account a USING (ledger_id, account_no) JOIN ledger l USING (ledger_id)
 WHERE l.name = @ledger AND s.statement_no = @statement_no;

-- name: StatementIssue :one
INSERT INTO statement (ledger_id, account_no, basis, ordinal, starts_at, ends_at, zone, through, opening, closing, content, sha256, issued_at, issued_by)
VALUES (@ledger_id, @account_no, @basis, @ordinal, @starts_at, @ends_at, @zone, @through, @opening, @closing, @content, @sha256, @issued_at, @issued_by)
RETURNING statement_no;

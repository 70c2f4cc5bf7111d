-- Records whose latest value counts.
CREATE TABLE records (
    kind    TEXT   NOT NULL,
    key     TEXT   NOT NULL,
    version BIGINT NOT NULL,
    value   BYTEA  NOT NULL,
    PRIMARY KEY (kind, key)
);

-- One row for each attempt of each request. `at` is in milliseconds since 1970, money in millionths of a dollar.
CREATE TABLE usage (
    request_id     TEXT    NOT NULL,
    attempt        BIGINT  NOT NULL,
    at             BIGINT  NOT NULL,
    day            TEXT    NOT NULL,
    identity       TEXT    NOT NULL,
    provider       TEXT    NOT NULL,
    account        TEXT    NOT NULL,
    client         TEXT,
    agent          TEXT,
    job            TEXT,
    model          TEXT    NOT NULL,
    input          BIGINT  NOT NULL,
    output         BIGINT  NOT NULL,
    cache_read     BIGINT  NOT NULL,
    cache_write_5m BIGINT  NOT NULL,
    cache_write_1h BIGINT  NOT NULL,
    cost           BIGINT  NOT NULL,
    list_value     BIGINT  NOT NULL,
    result         TEXT    NOT NULL,
    figures        TEXT    NOT NULL,
    price          TEXT    NOT NULL,
    PRIMARY KEY (request_id, attempt)
);
CREATE INDEX usage_at ON usage (at);

-- What each account was called last.
CREATE TABLE names (
    identity TEXT   NOT NULL PRIMARY KEY,
    name     TEXT   NOT NULL,
    at       BIGINT NOT NULL
);

-- What was spent of each budget in each of its months, by the month's first day.
CREATE TABLE spent (
    budget   TEXT   NOT NULL,
    month    TEXT   NOT NULL,
    amount   BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (budget, month)
);

-- What happened. Severity: 0 trace, 1 info, 2 warning, 3 error.
CREATE TABLE events (
    seq        BIGINT NOT NULL PRIMARY KEY,
    at         BIGINT NOT NULL,
    severity   BIGINT NOT NULL,
    kind       TEXT   NOT NULL,
    account    TEXT,
    agent      TEXT,
    request_id TEXT,
    json       TEXT   NOT NULL
);
CREATE INDEX events_at ON events (at);

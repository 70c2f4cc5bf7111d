BEGIN TRANSACTION;
CREATE TABLE accounts (
			id TEXT PRIMARY KEY,
			name TEXT NOT NULL,
			provider TEXT DEFAULT 'anthropic',
			api_key TEXT,
			refresh_token TEXT,
			access_token TEXT,
			expires_at INTEGER,
			created_at INTEGER NOT NULL,
			last_used INTEGER,
			request_count INTEGER DEFAULT 0,
			total_requests INTEGER DEFAULT 0,
			priority INTEGER DEFAULT 0
		, rate_limited_until INTEGER, session_start INTEGER, session_request_count INTEGER DEFAULT 0, paused INTEGER DEFAULT 0, rate_limit_reset INTEGER, rate_limit_status TEXT, rate_limit_remaining INTEGER, auto_fallback_enabled INTEGER DEFAULT 0, custom_endpoint TEXT, auto_refresh_enabled INTEGER DEFAULT 0, model_mappings TEXT, cross_region_mode TEXT DEFAULT 'geographic', model_fallbacks TEXT, billing_type TEXT DEFAULT NULL, refresh_token_issued_at INTEGER, auto_pause_on_overage_enabled INTEGER DEFAULT 0, peak_hours_pause_enabled INTEGER NOT NULL DEFAULT 0, pause_reason TEXT, rate_limited_reason TEXT, rate_limited_at INTEGER);
INSERT INTO "accounts" VALUES('9a1aa0a4-e0b4-4411-afb3-ea52b4b3801f','max','anthropic',NULL,'sk-ant-ort01-sim-flare-one-2','sk-ant-oat01-sim-flare-one-2',4796017514268,1796017514268,NULL,0,0,10,NULL,NULL,0,1,NULL,NULL,NULL,0,NULL,0,NULL,'geographic',NULL,NULL,1796017514268,0,0,'manual',NULL,NULL);
INSERT INTO "accounts" VALUES('77da5425-51e1-4765-802d-7e6ed093dfa5','Second_Max','anthropic',NULL,'sk-ant-ort01-sim-flare-two-2','sk-ant-oat01-sim-flare-two-2',4796017516817,1796017516817,NULL,0,0,5,NULL,NULL,0,0,NULL,NULL,NULL,0,NULL,0,NULL,'geographic',NULL,NULL,1796017516817,0,0,NULL,NULL,NULL);
INSERT INTO "accounts" VALUES('bae92329-ebce-448b-843b-34fe227d94c1','console','claude-console-api','sk-ant-api03-sim-flare-key-1',NULL,NULL,NULL,1796017519519,NULL,0,0,7,NULL,NULL,0,0,NULL,NULL,NULL,0,NULL,0,NULL,'geographic',NULL,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "accounts" VALUES('379b74ec-f46e-4573-bd27-6399ec72eaf0','zai','zai','zai-key-invented',NULL,NULL,NULL,1796017520492,NULL,0,0,0,NULL,NULL,0,0,NULL,NULL,NULL,0,NULL,0,NULL,'geographic',NULL,NULL,NULL,0,0,NULL,NULL,NULL);
CREATE TABLE agent_preferences (
			agent_id TEXT PRIMARY KEY,
			model TEXT NOT NULL,
			updated_at INTEGER NOT NULL
		);
CREATE TABLE api_keys (
			id TEXT PRIMARY KEY,
			name TEXT NOT NULL UNIQUE,
			hashed_key TEXT NOT NULL UNIQUE,
			prefix_last_8 TEXT NOT NULL,
			created_at INTEGER NOT NULL,
			last_used INTEGER,
			usage_count INTEGER DEFAULT 0,
			is_active INTEGER DEFAULT 1
		, role TEXT NOT NULL DEFAULT 'api-only');
CREATE TABLE combo_family_assignments (
			family TEXT PRIMARY KEY,
			combo_id TEXT,
			enabled INTEGER DEFAULT 0,
			FOREIGN KEY (combo_id) REFERENCES combos(id) ON DELETE SET NULL
		);
INSERT INTO "combo_family_assignments" VALUES('opus',NULL,0);
INSERT INTO "combo_family_assignments" VALUES('sonnet',NULL,0);
INSERT INTO "combo_family_assignments" VALUES('haiku',NULL,0);
CREATE TABLE combo_slots (
			id TEXT PRIMARY KEY,
			combo_id TEXT NOT NULL,
			account_id TEXT NOT NULL,
			model TEXT NOT NULL,
			priority INTEGER NOT NULL,
			enabled INTEGER DEFAULT 1,
			FOREIGN KEY (combo_id) REFERENCES combos(id) ON DELETE CASCADE,
			FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE
		);
CREATE TABLE combos (
			id TEXT PRIMARY KEY,
			name TEXT NOT NULL UNIQUE,
			description TEXT,
			enabled INTEGER DEFAULT 1,
			created_at INTEGER NOT NULL,
			updated_at INTEGER NOT NULL
		);
CREATE TABLE model_translations (
			id TEXT PRIMARY KEY,
			client_name TEXT NOT NULL,
			bedrock_model_id TEXT NOT NULL,
			is_default INTEGER DEFAULT 1,
			auto_discovered INTEGER DEFAULT 0,
			created_at INTEGER NOT NULL,
			updated_at INTEGER NOT NULL
		);
INSERT INTO "model_translations" VALUES('model-trans-1','claude-3-5-sonnet-20241022','us.anthropic.claude-3-5-sonnet-20241022-v2:0',1,0,1796017511898,1796017511898);
INSERT INTO "model_translations" VALUES('model-trans-2','claude-3-5-sonnet-20240620','us.anthropic.claude-3-5-sonnet-20240620-v1:0',1,0,1796017511898,1796017511898);
INSERT INTO "model_translations" VALUES('model-trans-3','claude-3-5-haiku-20241022','us.anthropic.claude-3-5-haiku-20241022-v1:0',1,0,1796017511898,1796017511898);
INSERT INTO "model_translations" VALUES('model-trans-4','claude-3-opus-20240229','us.anthropic.claude-3-opus-20240229-v1:0',1,0,1796017511898,1796017511898);
INSERT INTO "model_translations" VALUES('model-trans-5','claude-3-sonnet-20240229','us.anthropic.claude-3-sonnet-20240229-v1:0',1,0,1796017511898,1796017511898);
INSERT INTO "model_translations" VALUES('model-trans-6','claude-3-haiku-20240307','us.anthropic.claude-3-haiku-20240307-v1:0',1,0,1796017511898,1796017511898);
INSERT INTO "model_translations" VALUES('model-trans-7','claude-3-5-sonnet','us.anthropic.claude-3-5-sonnet-20241022-v2:0',1,0,1796017511898,1796017511898);
INSERT INTO "model_translations" VALUES('model-trans-8','claude-3-5-haiku','us.anthropic.claude-3-5-haiku-20241022-v1:0',1,0,1796017511898,1796017511898);
INSERT INTO "model_translations" VALUES('model-trans-9','claude-3-opus','us.anthropic.claude-3-opus-20240229-v1:0',1,0,1796017511898,1796017511898);
INSERT INTO "model_translations" VALUES('model-trans-10','claude-3-sonnet','us.anthropic.claude-3-sonnet-20240229-v1:0',1,0,1796017511898,1796017511898);
INSERT INTO "model_translations" VALUES('model-trans-11','claude-3-haiku','us.anthropic.claude-3-haiku-20240307-v1:0',1,0,1796017511898,1796017511898);
CREATE TABLE oauth_sessions (
			id TEXT PRIMARY KEY,
			account_name TEXT NOT NULL,
			verifier TEXT NOT NULL,
			mode TEXT NOT NULL,
			created_at INTEGER NOT NULL,
			expires_at INTEGER NOT NULL
		, custom_endpoint TEXT);
CREATE TABLE request_payloads (
			id TEXT PRIMARY KEY,
			json TEXT NOT NULL,
			timestamp INTEGER,
			FOREIGN KEY (id) REFERENCES requests(id) ON DELETE CASCADE
		);
CREATE TABLE requests (
			id TEXT PRIMARY KEY,
			timestamp INTEGER NOT NULL,
			method TEXT NOT NULL,
			path TEXT NOT NULL,
			account_used TEXT,
			status_code INTEGER,
			success BOOLEAN,
			error_message TEXT,
			response_time_ms INTEGER,
			failover_attempts INTEGER DEFAULT 0,
			model TEXT,
			prompt_tokens INTEGER DEFAULT 0,
			completion_tokens INTEGER DEFAULT 0,
			total_tokens INTEGER DEFAULT 0,
			cost_usd REAL DEFAULT 0,
			output_tokens_per_second REAL,
			input_tokens INTEGER DEFAULT 0,
			cache_read_input_tokens INTEGER DEFAULT 0,
			cache_creation_input_tokens INTEGER DEFAULT 0,
			output_tokens INTEGER DEFAULT 0,
			agent_used TEXT,
			project TEXT,
			billing_type TEXT DEFAULT 'api'
		, api_key_id TEXT, api_key_name TEXT, combo_name TEXT);
CREATE INDEX idx_requests_timestamp ON requests(timestamp DESC);
CREATE INDEX idx_requests_account_used ON requests(account_used);
CREATE INDEX idx_requests_timestamp_account ON requests(timestamp DESC, account_used);
CREATE INDEX idx_request_payloads_timestamp ON request_payloads(timestamp);
CREATE INDEX idx_oauth_sessions_expires ON oauth_sessions(expires_at);
CREATE INDEX idx_api_keys_hashed_key ON api_keys(hashed_key);
CREATE INDEX idx_api_keys_active ON api_keys(is_active);
CREATE INDEX idx_model_translations_client_name ON model_translations(client_name);
CREATE UNIQUE INDEX idx_model_translations_unique ON model_translations(client_name, bedrock_model_id);
CREATE INDEX idx_combo_slots_combo_id ON combo_slots(combo_id, priority);
CREATE UNIQUE INDEX idx_combo_slots_unique ON combo_slots(combo_id, account_id, model);
CREATE INDEX idx_api_keys_role ON api_keys(role);
CREATE INDEX idx_requests_model_timestamp 
		ON requests(model, timestamp DESC) 
		WHERE model IS NOT NULL
	;
CREATE INDEX idx_requests_success_timestamp 
		ON requests(success, timestamp DESC)
	;
CREATE INDEX idx_accounts_paused 
		ON accounts(paused) 
		WHERE paused = 0
	;
CREATE INDEX idx_requests_account_timestamp 
		ON requests(account_used, timestamp DESC)
	;
CREATE INDEX idx_requests_cost_model 
		ON requests(cost_usd, model, timestamp DESC) 
		WHERE cost_usd > 0 AND model IS NOT NULL
	;
CREATE INDEX idx_requests_response_time 
		ON requests(model, response_time_ms) 
		WHERE response_time_ms IS NOT NULL AND model IS NOT NULL
	;
CREATE INDEX idx_requests_tokens 
		ON requests(timestamp DESC, total_tokens) 
		WHERE total_tokens > 0
	;
CREATE INDEX idx_accounts_name 
		ON accounts(name)
	;
CREATE INDEX idx_accounts_rate_limited 
		ON accounts(rate_limited_until) 
		WHERE rate_limited_until IS NOT NULL
	;
CREATE INDEX idx_accounts_session 
		ON accounts(session_start, session_request_count) 
		WHERE session_start IS NOT NULL
	;
CREATE INDEX idx_accounts_request_count
		ON accounts(request_count DESC, last_used)
	;
CREATE INDEX idx_accounts_priority
		ON accounts(priority ASC, request_count DESC, last_used)
	;
CREATE INDEX idx_oauth_sessions_account_name
		ON oauth_sessions(account_name, expires_at)
	;
CREATE INDEX idx_requests_api_key
		ON requests(api_key_id)
		WHERE api_key_id IS NOT NULL
	;
CREATE INDEX idx_requests_api_key_timestamp
		ON requests(api_key_id, timestamp DESC)
		WHERE api_key_id IS NOT NULL
	;
CREATE INDEX idx_requests_project_timestamp
		ON requests(project, timestamp DESC)
		WHERE project IS NOT NULL
	;
CREATE INDEX idx_requests_cleanup
		ON requests(timestamp ASC, id)
	;
CREATE INDEX idx_request_payloads_cleanup
		ON request_payloads(timestamp, id)
		WHERE timestamp IS NOT NULL
	;
CREATE INDEX idx_requests_summary_covering
		ON requests(timestamp DESC, id, account_used, status_code, success,
		            response_time_ms, model, total_tokens, cost_usd,
		            input_tokens, output_tokens, billing_type, combo_name,
		            failover_attempts)
	;
CREATE INDEX idx_requests_analytics_covering
		ON requests(timestamp, success, total_tokens, cost_usd, billing_type,
		            output_tokens, input_tokens, cache_read_input_tokens,
		            cache_creation_input_tokens, output_tokens_per_second,
		            response_time_ms, account_used, model)
	;
CREATE INDEX idx_requests_billing_type_timestamp
		ON requests(billing_type, timestamp DESC)
		WHERE billing_type IS NOT NULL
	;
COMMIT;

SELECT pg_catalog.set_config('search_path', '', false);

CREATE TABLE public.audit_blocks (
    id bigint NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C",
    skipped text NOT NULL COLLATE pg_catalog."C",
    inputs text NOT NULL COLLATE pg_catalog."C",
    is_seeded boolean NOT NULL,
    results bytea NOT NULL
);

CREATE SEQUENCE public.audit_blocks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.audit_blocks_id_seq OWNED BY public.audit_blocks.id;

CREATE TABLE public.audits (
    entry_id bigint NOT NULL,
    recording_id bigint NOT NULL,
    block_id bigint NOT NULL
);

CREATE TABLE public.candidate_sets (
    entry_id bigint NOT NULL,
    fingerprint text NOT NULL COLLATE pg_catalog."C",
    recording_id bigint NOT NULL
);

CREATE TABLE public.configs (
    id bigint NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C",
    text text NOT NULL COLLATE pg_catalog."C",
    kind text DEFAULT 'triton'::text NOT NULL COLLATE pg_catalog."C"
);

CREATE SEQUENCE public.configs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.configs_id_seq OWNED BY public.configs.id;

CREATE TABLE public.entries (
    id bigint NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C",
    arch text NOT NULL COLLATE pg_catalog."C",
    kernel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    lookup_key text NOT NULL COLLATE pg_catalog."C",
    module text NOT NULL COLLATE pg_catalog."C",
    device text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    is_recorded boolean DEFAULT true NOT NULL
);

CREATE TABLE public.recorded_runs (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    is_named boolean NOT NULL,
    withdrawn_at text COLLATE pg_catalog."C"
);

CREATE TABLE public.recordings (
    id bigint NOT NULL,
    run_id bigint NOT NULL,
    rank integer NOT NULL,
    environment_id bigint NOT NULL,
    votes_digest text COLLATE pg_catalog."C",
    observations_digest text COLLATE pg_catalog."C",
    timings_digest text COLLATE pg_catalog."C",
    world_size integer,
    host text COLLATE pg_catalog."C",
    device_name text COLLATE pg_catalog."C",
    device_arch text COLLATE pg_catalog."C",
    multiprocessor_count integer,
    source text NOT NULL COLLATE pg_catalog."C",
    ingested_at text NOT NULL COLLATE pg_catalog."C",
    superseded_at text NOT NULL COLLATE pg_catalog."C",
    process_id text COLLATE pg_catalog."C",
    attempt integer,
    local_rank integer,
    device_uuid text COLLATE pg_catalog."C",
    source_set_id bigint,
    hardware_id bigint,
    extra text COLLATE pg_catalog."C",
    withdrawn_at text COLLATE pg_catalog."C",
    origin_id bigint
);

CREATE TABLE public.votes (
    entry_id bigint NOT NULL,
    config_id bigint NOT NULL,
    recording_id bigint NOT NULL
);

CREATE VIEW public.counted_votes AS
 SELECT e.arch,
    e.kernel,
    e.key,
    c.text AS config,
    r.rank,
    u.name AS run
   FROM ((((public.votes v
     JOIN public.entries e ON ((e.id = v.entry_id)))
     JOIN public.configs c ON ((c.id = v.config_id)))
     JOIN public.recordings r ON (((r.id = v.recording_id) AND (r.superseded_at = ''::text) AND (r.withdrawn_at IS NULL))))
     JOIN public.recorded_runs u ON (((u.id = r.run_id) AND (u.withdrawn_at IS NULL))));

CREATE TABLE public.curated_choices (
    entry_id bigint NOT NULL,
    origin_id bigint NOT NULL,
    config_id bigint NOT NULL
);

CREATE SEQUENCE public.entries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.entries_id_seq OWNED BY public.entries.id;

CREATE TABLE public.environment_modules (
    environment_id bigint NOT NULL,
    module text NOT NULL COLLATE pg_catalog."C",
    package text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE public.environments (
    id bigint NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C",
    triton text NOT NULL COLLATE pg_catalog."C",
    packages text NOT NULL COLLATE pg_catalog."C",
    modules text NOT NULL COLLATE pg_catalog."C"
);

CREATE SEQUENCE public.environments_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.environments_id_seq OWNED BY public.environments.id;

CREATE TABLE public.exports (
    id bigint NOT NULL,
    table_digest text NOT NULL COLLATE pg_catalog."C",
    arch text NOT NULL COLLATE pg_catalog."C",
    policy text NOT NULL COLLATE pg_catalog."C",
    filters text NOT NULL COLLATE pg_catalog."C",
    runs text NOT NULL COLLATE pg_catalog."C",
    entry_count integer NOT NULL,
    recording_count integer NOT NULL,
    output text NOT NULL COLLATE pg_catalog."C",
    exported_by text NOT NULL COLLATE pg_catalog."C",
    exported_at text NOT NULL COLLATE pg_catalog."C",
    selection_digest text COLLATE pg_catalog."C"
);

CREATE SEQUENCE public.exports_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.exports_id_seq OWNED BY public.exports.id;

CREATE TABLE public.hand_ins (
    id text NOT NULL COLLATE pg_catalog."C",
    received_at text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    payload bytea NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C"
);

CREATE TABLE public.hardware (
    id bigint NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C",
    driver text COLLATE pg_catalog."C",
    cuda text COLLATE pg_catalog."C",
    ptxas text COLLATE pg_catalog."C",
    sm_clock_mhz integer,
    memory_clock_mhz integer,
    power_limit_w integer
);

CREATE SEQUENCE public.hardware_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.hardware_id_seq OWNED BY public.hardware.id;

CREATE TABLE public.kernel_sources (
    source_set_id bigint NOT NULL,
    kernel_digest text NOT NULL COLLATE pg_catalog."C",
    kernel text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE public.observations (
    recording_id bigint NOT NULL,
    entry_id bigint NOT NULL,
    config_id bigint,
    reason text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE public.origins (
    id bigint NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C",
    tool text NOT NULL COLLATE pg_catalog."C",
    project text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    file text NOT NULL COLLATE pg_catalog."C",
    environment_id bigint NOT NULL,
    choices_digest text NOT NULL COLLATE pg_catalog."C",
    choice_count integer NOT NULL,
    ingested_at text NOT NULL COLLATE pg_catalog."C",
    superseded_at text NOT NULL COLLATE pg_catalog."C"
);

CREATE SEQUENCE public.origins_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.origins_id_seq OWNED BY public.origins.id;

CREATE TABLE public.override_events (
    id bigint NOT NULL,
    action text NOT NULL COLLATE pg_catalog."C",
    lifts bigint,
    arch text NOT NULL COLLATE pg_catalog."C",
    kernel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    config_id bigint NOT NULL,
    reason text NOT NULL COLLATE pg_catalog."C",
    author text NOT NULL COLLATE pg_catalog."C",
    until text COLLATE pg_catalog."C",
    created_at text NOT NULL COLLATE pg_catalog."C"
);

CREATE SEQUENCE public.override_events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.override_events_id_seq OWNED BY public.override_events.id;

CREATE TABLE public.packed_candidate_sets (
    entry_id bigint NOT NULL,
    fingerprint text NOT NULL COLLATE pg_catalog."C",
    first_recording bigint NOT NULL,
    last_recording bigint NOT NULL,
    recording_count integer NOT NULL,
    recordings bytea NOT NULL
);

CREATE TABLE public.packed_timings (
    entry_id bigint NOT NULL,
    first_recording bigint NOT NULL,
    last_recording bigint NOT NULL,
    recording_count integer NOT NULL,
    timing_count integer NOT NULL,
    recordings bytea NOT NULL,
    configs bytea NOT NULL,
    medians bytea NOT NULL,
    percentiles bytea NOT NULL
);

CREATE SEQUENCE public.recorded_runs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.recorded_runs_id_seq OWNED BY public.recorded_runs.id;

CREATE TABLE public.recording_archs (
    recording_id bigint NOT NULL,
    arch text NOT NULL COLLATE pg_catalog."C",
    vote_count integer NOT NULL
);

CREATE SEQUENCE public.recordings_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.recordings_id_seq OWNED BY public.recordings.id;

CREATE TABLE public.source_sets (
    id bigint NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C"
);

CREATE SEQUENCE public.source_sets_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.source_sets_id_seq OWNED BY public.source_sets.id;

CREATE TABLE public.timings (
    entry_id bigint NOT NULL,
    config_id bigint NOT NULL,
    recording_id bigint NOT NULL,
    median_ms double precision,
    p20_ms double precision,
    p80_ms double precision
);

CREATE TABLE public.tuning_registry_alembic_version (
    version_num character varying(32) NOT NULL
);

ALTER TABLE ONLY public.audit_blocks ALTER COLUMN id SET DEFAULT nextval('public.audit_blocks_id_seq'::regclass);

ALTER TABLE ONLY public.configs ALTER COLUMN id SET DEFAULT nextval('public.configs_id_seq'::regclass);

ALTER TABLE ONLY public.entries ALTER COLUMN id SET DEFAULT nextval('public.entries_id_seq'::regclass);

ALTER TABLE ONLY public.environments ALTER COLUMN id SET DEFAULT nextval('public.environments_id_seq'::regclass);

ALTER TABLE ONLY public.exports ALTER COLUMN id SET DEFAULT nextval('public.exports_id_seq'::regclass);

ALTER TABLE ONLY public.hardware ALTER COLUMN id SET DEFAULT nextval('public.hardware_id_seq'::regclass);

ALTER TABLE ONLY public.origins ALTER COLUMN id SET DEFAULT nextval('public.origins_id_seq'::regclass);

ALTER TABLE ONLY public.override_events ALTER COLUMN id SET DEFAULT nextval('public.override_events_id_seq'::regclass);

ALTER TABLE ONLY public.recorded_runs ALTER COLUMN id SET DEFAULT nextval('public.recorded_runs_id_seq'::regclass);

ALTER TABLE ONLY public.recordings ALTER COLUMN id SET DEFAULT nextval('public.recordings_id_seq'::regclass);

ALTER TABLE ONLY public.source_sets ALTER COLUMN id SET DEFAULT nextval('public.source_sets_id_seq'::regclass);

INSERT INTO public.audit_blocks VALUES (1, '56087db5c85d7cfe5e8a3436e0d1a310c45af1012608f38e185ff00bd92f8443', '', '90ab12cd34ef5678', false, '\x20000000000000000123456789abcdef000000000000000000');
INSERT INTO public.audit_blocks VALUES (2, '71afc854bdd234dac7660fb62132d127dc38ca09d7e48e193f75968246a09dab', 'x is a tensor descriptor', '', false, '\x');

INSERT INTO public.audits VALUES (51, 10, 1);
INSERT INTO public.audits VALUES (50, 10, 2);
INSERT INTO public.audits VALUES (51, 11, 1);
INSERT INTO public.audits VALUES (50, 11, 2);

INSERT INTO public.candidate_sets VALUES (47, 'f00d', 4);

INSERT INTO public.configs VALUES (1, '0a02fc29b58257be43c241268a244d22d5f146b1e2b1018771265842db00a014', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_H": 4}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (2, '117a9b3dace1f42ebc45945e8d8e01885e93dccfeb0b80672c831372aaa68129', '{"ir_override": null, "kwargs": {"BT": 8}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 8}', 'triton');
INSERT INTO public.configs VALUES (3, '195e0502cf74f4bb9f3f76b5b39114a49cc6aa6f48f63755f53c30ce954c1b1f', '{"ir_override": null, "kwargs": {}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (4, '3a9db0008faf7d3170b0a15dea45c7ab2d9bf4d70e496f8aab9a0ab149a2a1d0', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_K": 64, "BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 8}', 'triton');
INSERT INTO public.configs VALUES (5, '44249b1a69463e5c1a898dcd28e533e2d0bad5304e9f8f7726a076962fd47edf', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_K": 32, "BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 64}, "maxnreg": null, "num_ctas": 1, "num_stages": 5, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (6, '49f156d6e92d50116cb3a68a22fda403c8f789de5d03ffe11996e5739998448f', '{"ir_override": null, "kwargs": {"BT": 64}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 2}', 'triton');
INSERT INTO public.configs VALUES (7, '522bdd6a56887f0acb93bda107a1533b11cab06b177b1ed730cc02d39e2a5656', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_H": 1}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (8, '58e6e98d89625beccc20a55eb1c0180e06e9a2bdecbaf08d175bc655508f54df', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 64}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (9, '5ea75e161c38986c16399a4648d714a79345f0f4e50aa9119e23f22e0d2de1ba', '{"ir_override": null, "kwargs": {"BT": 64}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 8}', 'triton');
INSERT INTO public.configs VALUES (10, '6235efd12afd7605b88da40de7a5551166227dc9607ea7be51cf491f30427961', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_M": 32}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (11, '6639246bd2255209ccd1472cb616435660e38a2f9998ccf33ab9a10774cec3db', '{"ir_override": null, "kwargs": {"BT": 128}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 16}', 'triton');
INSERT INTO public.configs VALUES (12, '69a6a79d67c862498cfde48e71aa57c675446b430fe4d18daac8b2b6f052e3d1', '{"ir_override": null, "kwargs": {"BT": 8}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (13, '6c516b56a9e7da9a90d747eb00d746ea6aaf3de00ea2c78f9be6527cd88aee04', '{"ir_override": null, "kwargs": {}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 2}', 'triton');
INSERT INTO public.configs VALUES (14, '6eb8b91efc175651f2a8f09d6d7f6de668b16d2b28d04380adf413dd8cdd7df9', '{"ir_override": null, "kwargs": {"BLOCK_SIZE": 1024}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (15, '8bc52ae7eb13808c509451158c23a3a59aab8109d9d6193c866fa1fbd5decf6c', '{"ir_override": null, "kwargs": {"BT": 16}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 2}', 'triton');
INSERT INTO public.configs VALUES (16, '92e59831f9a240272c385dae1d7c1c0e7b5f5288f3bdd090a25a59c70bb599e2', '{"ir_override": null, "kwargs": {"BT": 8}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 1}', 'triton');
INSERT INTO public.configs VALUES (17, '9440d7a8490de781b0565ea1fe2f270d2c1fe4d85d2398c28b847d25e8d08954', '{"ir_override": null, "kwargs": {"BT": 32}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 2}', 'triton');
INSERT INTO public.configs VALUES (18, '9973546d99ccf7ed1b4dc07911c60c9d2a0408ac7876ad1d23b32f9f867f74ee', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_H": 8}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (19, '9e8e73dbad67937a8afb443bb79ff6c7af5294b74c16e1ac4a348615381ed7d2', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (20, 'a3b73783f935ae21b727f8df58683accd1d7441e9ccdcc1c9b731a381469ce20', '{"ir_override": null, "kwargs": {"BT": 32}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 8}', 'triton');
INSERT INTO public.configs VALUES (21, 'a8ba986298438e1c9ad535d13ad99f9b8234dc7b9bcc63048e302ce0055d7dbd', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_K": 32, "BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128}, "maxnreg": null, "num_ctas": 1, "num_stages": 4, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (22, 'acec225f9c12efcc9bc63b9ad5293db1999575b0c940d633919fd4d819c95c95', '{"ir_override": null, "kwargs": {}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 1}', 'triton');
INSERT INTO public.configs VALUES (23, 'b56d00a8690806d848c07a9acc5df95982014dcaa55502c031f8adc07f3c38e3', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_M": 64}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (24, 'bddf560e0be911b6d1e041258e1ae103576bf0d647b1b188d02bc2d09680ce98', '{"ir_override": null, "kwargs": {"BT": 32}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (25, 'c0bb84bf4d0e670ebdf733d5cfb3fd9dab812c6b1900fd6153deca647967dc86', '{"ir_override": null, "kwargs": {}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 8}', 'triton');
INSERT INTO public.configs VALUES (26, 'c5f7127be008ff3d74cc80150fdfe2ccf68346ad14ddbcb7725de2299209b954', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_H": 16}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (27, 'cbd8071e114bb1b7d4356a156599fc804eb4dbc748993820b4213c38afa89389', '{"ir_override": null, "kwargs": {"BLOCK_SIZE": 512}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (28, 'ea67c0c24a0bf1bb7064394585260f1d5f8652c519ecfbb6831cf6f8e9b9b981', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 32}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (29, 'f671ac6fdf4d0383357a012071ef83a031375d0c365795fde3bc5e8f912c23c3', '{"ir_override": null, "kwargs": {"BT": 16}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (30, 'f73e985b8def29b91cbae7755da2aea741de37c1c85ae9fb4d39a5cad9608038', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_CS": 32, "BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128}, "maxnreg": null, "num_ctas": 1, "num_stages": 4, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (31, 'f757ded091b912b3fdbc657fe6b3abe98805a4cb81f34bcc024cc0fa7c8b8f7b', '{"ir_override": null, "kwargs": {"BLOCK_SIZE_K": 32, "BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 64}, "maxnreg": null, "num_ctas": 1, "num_stages": 5, "num_warps": 2}', 'triton');
INSERT INTO public.configs VALUES (32, 'd2b5116e9856d41be9db525ba9fe683e917f5445fa79c27ec896a2a125a94270', '{"ir_override": null, "kwargs": {"B": 16}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');
INSERT INTO public.configs VALUES (33, 'e799bfd466398a7b5db3b8beb99872e8c011c1dd3acd6ec60b631af46c18b293', '{"ir_override": null, "kwargs": {"B": 8}, "maxnreg": null, "num_ctas": 1, "num_stages": 3, "num_warps": 4}', 'triton');

INSERT INTO public.entries VALUES (1, '0b07ba0cc0154e2dda584d08040d71765a5da0df45b8f789efb2632ff6f5727b', 'sm90', 'fla.modules.norm.layernorm.layer_norm_bwd_kernel', 'D=64|NB=16|HAS_DRESIDUAL=False|STORE_DRESIDUAL=False|IS_RMS_NORM=True|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'D=64|NB=16|HAS_DRESIDUAL=0|STORE_DRESIDUAL=0|IS_RMS_NORM=1|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'fla', '', true);
INSERT INTO public.entries VALUES (2, '0ebabe05f5df6576e7a9498cf4b82b17517b93288fbd1b5e6f0d5e8ddb85f8e7', 'sm90', 'fla.modules.norm.l2norm.l2norm_fwd_kernel', 'D=64|NB=1|torch.bfloat16|torch.bfloat16|torch.float32', 'D=64|NB=1|torch.bfloat16|torch.bfloat16|torch.float32', 'fla', '', true);
INSERT INTO public.entries VALUES (3, '1189ba7fdfe4ccd3d8e1a16311ea94b631b9bcce1b942122ef04ff7a3b3200ef', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_scan._chunk_scan_bwd_dcb_kernel', 'chunk_size=256|hdim=64|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32', 'chunk_size=256|hdim=64|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (4, '19e98b4cccc1266f73195689702a7d8b65d450ebae5ae17ba2e4d4fe3d98462f', 'sm90', 'fla.modules.norm.l2norm.l2norm_bwd_kernel', 'D=256|NB=1|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16', 'D=256|NB=1|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16', 'fla', '', true);
INSERT INTO public.entries VALUES (5, '29e4358ac9d94e2d8d559fc49fa9b1b60c15cc37ae5d0093e2ff8c32d18b2eb7', 'sm90', 'mamba_ssm.ops.triton.ssd_bmm._bmm_chunk_fwd_kernel', 'chunk_size=128|K=128|IS_CAUSAL=False|torch.bfloat16|torch.bfloat16|torch.float32', 'chunk_size=128|K=128|IS_CAUSAL=0|torch.bfloat16|torch.bfloat16|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (6, '3270abb4f0765bc91070d3730ad341c74d1e4aa594e002e2a09a22ac0a8813f7', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_state._chunk_state_bwd_db_kernel', 'chunk_size=128|dstate=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.float32', 'chunk_size=128|dstate=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (7, '3458058f0168b689da47f0a4f3933372a2ce4197000c12d7e4097195473e9b50', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_scan._chunk_scan_bwd_dcb_kernel', 'chunk_size=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32', 'chunk_size=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (8, '3fd27d9c3565a6ddf430d279c819e513a6cf50100094e2cdade9649508aa1b17', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_scan._chunk_scan_bwd_ddAcs_stable_kernel', 'chunk_size=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.float32', 'chunk_size=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (9, '4909d11e51481ded6c1c18dda3ab776e53388af931ed51a0fc6faa1ec31063aa', 'sm90', 'fla.modules.norm.layernorm.layer_norm_fwd_kernel', 'D=256|NB=16|HAS_RESIDUAL=False|STORE_RESIDUAL_OUT=False|IS_RMS_NORM=True|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32', 'D=256|NB=16|HAS_RESIDUAL=0|STORE_RESIDUAL_OUT=0|IS_RMS_NORM=1|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32', 'fla', '', true);
INSERT INTO public.entries VALUES (10, '4b0646d8e7a9e364639d6735c8850213480d92ac59da1b2dc8b37c33f75be6d6', 'sm90', 'fla.modules.norm.layernorm.layer_norm_bwd_kernel', 'D=128|NB=16|HAS_DRESIDUAL=False|STORE_DRESIDUAL=False|IS_RMS_NORM=True|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'D=128|NB=16|HAS_DRESIDUAL=0|STORE_DRESIDUAL=0|IS_RMS_NORM=1|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'fla', '', true);
INSERT INTO public.entries VALUES (11, '51705b06045cf7b538a0ccaf5cab7f417bd105959488138a5a1502b8040e77d6', 'sm90', 'fla.modules.norm.layernorm.layer_norm_bwd_kernel', 'D=256|NB=16|HAS_DRESIDUAL=False|STORE_DRESIDUAL=False|IS_RMS_NORM=True|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'D=256|NB=16|HAS_DRESIDUAL=0|STORE_DRESIDUAL=0|IS_RMS_NORM=1|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'fla', '', true);
INSERT INTO public.entries VALUES (12, '5a021dca1843b48ddb57c1a1d87980d376bcf491522aa8948559d1fc03f8bcd4', 'sm90', 'fla.modules.norm.l2norm.l2norm_fwd_kernel', 'D=128|NB=1|torch.bfloat16|torch.bfloat16|torch.float32', 'D=128|NB=1|torch.bfloat16|torch.bfloat16|torch.float32', 'fla', '', true);
INSERT INTO public.entries VALUES (13, '5a5c60fa4115e9fc091bd59a8a43d5503170260824d968dee56c922e8e33935c', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_state._chunk_cumsum_bwd_kernel', 'chunk_size=256|nheads=64|torch.float32|torch.float32|torch.bfloat16|torch.float32|torch.float32|torch.bfloat16|torch.float32|torch.float32', 'chunk_size=256|nheads=64|torch.float32|torch.float32|torch.bfloat16|torch.float32|torch.float32|torch.bfloat16|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (14, '5ed2fd4af4ff973dc8de287e52e1d8470ba613ebe049370b84670a1f7dc238ad', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_scan._chunk_scan_bwd_dstates_kernel', 'hdim=64|dstate=128|chunk_size=128|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'hdim=64|dstate=128|chunk_size=128|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (15, '67812c8d30a5a50c8721ea42843f7175b3b871868a5e61cf69a837bddbfb6602', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_state._chunk_cumsum_fwd_kernel', 'chunk_size=256|nheads=64|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.float32', 'chunk_size=256|nheads=64|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (16, '6828b1d8291927133cd7bd302a7b30bf8fd676499c5aba128ec949ea9f5341ef', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_scan._chunk_scan_bwd_dz_kernel', 'chunk_size=256|hdim=64|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16|torch.float32', 'chunk_size=256|hdim=64|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (17, '6d0e7458320a6cbce89ab4656f8a484b480422d21e87dcbb21faf7569067aad6', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_state._chunk_state_fwd_kernel', 'hdim=64|dstate=128|chunk_size=128|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32', 'hdim=64|dstate=128|chunk_size=128|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (18, '7022fa918cbe1211efc85edcdf223f91d4e04a2cb8c2955ef616390224fff4e1', 'sm90', 'fla.modules.norm.l2norm.l2norm_bwd_kernel', 'D=128|NB=1|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16', 'D=128|NB=1|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16', 'fla', '', true);
INSERT INTO public.entries VALUES (19, '759ef2e92de58aa734a48e5044a268bed81aac6f1c3da000eda76a3bb2dbf3ef', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_scan._chunk_scan_bwd_dz_kernel', 'chunk_size=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16|torch.float32', 'chunk_size=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (20, '7d652315fdd177b081e8f72073e14762b5b09b19481993b3c6211dc56cc40880', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_state._chunk_cumsum_fwd_kernel', 'chunk_size=128|nheads=128|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.float32', 'chunk_size=128|nheads=128|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (21, '82ba2c74fdb0e3bd20b7e1538041fe7cc53512864a2f2abce50bb3d7d7a43386', 'sm90', 'mamba_ssm.ops.triton.ssd_state_passing._state_passing_fwd_kernel', 'dim=8192|torch.float32|torch.float32|torch.float32|torch.float32', 'dim=8192|torch.float32|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (22, '8a919acc4fae8f66ec39983725c5d4c030f23ed6f9b800dd33716cec3b27445d', 'sm90', 'fla.modules.norm.layernorm.layer_norm_fwd_kernel', 'D=64|NB=16|HAS_RESIDUAL=False|STORE_RESIDUAL_OUT=False|IS_RMS_NORM=True|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32', 'D=64|NB=16|HAS_RESIDUAL=0|STORE_RESIDUAL_OUT=0|IS_RMS_NORM=1|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32', 'fla', '', true);
INSERT INTO public.entries VALUES (23, '9297c4977b3c6ef977d9b03f392e9381a2b4630672b852f6d02a1253ec5d6987', 'sm90', 'mamba_ssm.ops.triton.ssd_state_passing._state_passing_fwd_kernel', 'dim=8192|torch.float32|torch.bfloat16|torch.float32|torch.float32', 'dim=8192|torch.float32|torch.bfloat16|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (24, '9e66eed3888fd0279129260104fc0b602d3d93e0886fe9231ed21d213af9aeec', 'sm90', 'fla.modules.norm.l2norm.l2norm_bwd_kernel', 'D=64|NB=1|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16', 'D=64|NB=1|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16', 'fla', '', true);
INSERT INTO public.entries VALUES (25, 'a2da371506ccbde200b0fcae8267873f330f33a817a6f367c440ea99625238bd', 'sm90', 'fla.modules.norm.layernorm.layer_norm_bwd_kernel_row', 'D=1024|HAS_DRESIDUAL=False|STORE_DRESIDUAL=False|IS_RMS_NORM=True|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'D=1024|HAS_DRESIDUAL=0|STORE_DRESIDUAL=0|IS_RMS_NORM=1|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'fla', '', true);
INSERT INTO public.entries VALUES (26, 'a4b26d1cf329962f4d456eba667362b2c6dfc360564a43c1c054bfb00d89c09f', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_state._chunk_cumsum_bwd_kernel', 'chunk_size=128|nheads=128|torch.float32|torch.float32|torch.bfloat16|torch.float32|torch.float32|torch.bfloat16|torch.float32|torch.float32', 'chunk_size=128|nheads=128|torch.float32|torch.float32|torch.bfloat16|torch.float32|torch.float32|torch.bfloat16|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (27, 'a836441995f5e84ce4c1eb331b99b3cc2ea433855f7d9234fe4c47a901e32777', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_state._chunk_state_fwd_kernel', 'hdim=64|dstate=128|chunk_size=256|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32', 'hdim=64|dstate=128|chunk_size=256|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (28, 'af76472db103bf17f01abe736321f45a7f4405dd147370f2dd9f726b2d587721', 'sm90', 'fla.modules.norm.l2norm.l2norm_fwd_kernel_row', 'D=1024|torch.bfloat16|torch.bfloat16|torch.float32', 'D=1024|torch.bfloat16|torch.bfloat16|torch.float32', 'fla', '', true);
INSERT INTO public.entries VALUES (29, 'bb70262870006a3883ca3a7fbcf84ae3f946839502c9a834a92caad1af95c815', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_state._chunk_state_bwd_db_kernel', 'chunk_size=256|dstate=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.float32', 'chunk_size=256|dstate=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (30, 'bc7af13166d0cbcd53000c76e0e2a37f9299f7c90390aca18b8eb77ec4e9fbde', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_scan._chunk_scan_fwd_kernel', 'chunk_size=256|hdim=64|dstate=128|IS_CAUSAL=True|torch.float32|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.bfloat16|torch.bfloat16|torch.float32', 'chunk_size=256|hdim=64|dstate=128|IS_CAUSAL=1|torch.float32|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.bfloat16|torch.bfloat16|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (31, 'bd4728881cb3943054323c69f4f0fabbfdbb708b81a85540592676b8b83c4ef6', 'sm90', 'mamba_ssm.ops.triton.ssd_combined._chunk_scan_chunk_state_bwd_dx_kernel', 'chunk_size=256|hdim=64|dstate=128|torch.bfloat16|torch.float32|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'chunk_size=256|hdim=64|dstate=128|torch.bfloat16|torch.float32|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (32, 'c11ce468f9dac82ac49e7f6deb85fbdb4af0ddab8e8a1a4c3ac8a83d872595fd', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_scan._chunk_scan_bwd_dc_kernel', 'chunk_size=256|dstate=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32', 'chunk_size=256|dstate=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (33, 'c550ed153b242de55cc07cc9abddb5ac5798d85e465a525f6c9f8b2088b90bd3', 'sm90', 'mamba_ssm.ops.triton.ssd_state_passing._state_passing_bwd_kernel', 'dim=8192|torch.float32|torch.float32|torch.float32|torch.bfloat16|torch.float32|torch.bfloat16', 'dim=8192|torch.float32|torch.float32|torch.float32|torch.bfloat16|torch.float32|torch.bfloat16', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (34, 'cf0c8429c0a90216c9705d2c2d589a211d3c1a632c3d6cb8c727f33d839fca53', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_scan._chunk_scan_bwd_dstates_kernel', 'hdim=64|dstate=128|chunk_size=256|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'hdim=64|dstate=128|chunk_size=256|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (35, 'd971230aaedc37c59645a82f74bc19365218398cd399e9fa2bbe7afbc3080236', 'sm90', 'fla.modules.norm.layernorm.layer_norm_fwd_kernel_row', 'D=1024|HAS_RESIDUAL=False|STORE_RESIDUAL_OUT=False|IS_RMS_NORM=True|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32', 'D=1024|HAS_RESIDUAL=0|STORE_RESIDUAL_OUT=0|IS_RMS_NORM=1|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32', 'fla', '', true);
INSERT INTO public.entries VALUES (36, 'da2b04309cc0801c72fc90c0676d5a901a11ed867c65cb31ea844e74b3dd0144', 'sm90', 'mamba_ssm.ops.triton.ssd_bmm._bmm_chunk_bwd_kernel', 'chunk_size=256|K=128|torch.bfloat16|torch.float32|torch.bfloat16|torch.float32', 'chunk_size=256|K=128|torch.bfloat16|torch.float32|torch.bfloat16|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (37, 'dd76b56ae12a6162b45422a564fcc40600bd55cf3e36b4d9b20e6aa5924b28d0', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_scan._chunk_scan_bwd_ddAcs_stable_kernel', 'chunk_size=256|hdim=64|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.float32', 'chunk_size=256|hdim=64|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (38, 'dd81e0b300ee6ab00214a23633976adb402811aca9ed0e0065a30bc2d980c115', 'sm90', 'mamba_ssm.ops.triton.ssd_bmm._bmm_chunk_bwd_kernel', 'chunk_size=128|K=128|torch.bfloat16|torch.float32|torch.bfloat16|torch.float32', 'chunk_size=128|K=128|torch.bfloat16|torch.float32|torch.bfloat16|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (39, 'de6d365e701a8c95fe447bb2927b9cfb9afb28949f63de574dcb66cef4417803', 'sm90', 'mamba_ssm.ops.triton.ssd_bmm._bmm_chunk_fwd_kernel', 'chunk_size=256|K=128|IS_CAUSAL=False|torch.bfloat16|torch.bfloat16|torch.float32', 'chunk_size=256|K=128|IS_CAUSAL=0|torch.bfloat16|torch.bfloat16|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (40, 'e098f363844cb494fd2f022b2806776d38e1c240ad753f374fa92ba3ef259032', 'sm90', 'fla.modules.norm.l2norm.l2norm_fwd_kernel', 'D=256|NB=1|torch.bfloat16|torch.bfloat16|torch.float32', 'D=256|NB=1|torch.bfloat16|torch.bfloat16|torch.float32', 'fla', '', true);
INSERT INTO public.entries VALUES (41, 'e21b94d6b97640ec763e8d14033007040302535768b5ff9aa6fe81dc896b6c25', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_scan._chunk_scan_fwd_kernel', 'chunk_size=128|hdim=64|dstate=128|IS_CAUSAL=True|torch.float32|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.bfloat16|torch.bfloat16|torch.float32', 'chunk_size=128|hdim=64|dstate=128|IS_CAUSAL=1|torch.float32|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.bfloat16|torch.bfloat16|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (42, 'e73b14e7cfd9808b43c2da3a0eeaff44788e69adb524808ffe887aededb81951', 'sm90', 'fla.modules.norm.l2norm.l2norm_bwd_kernel_row', 'D=1024|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16', 'D=1024|torch.bfloat16|torch.float32|torch.bfloat16|torch.bfloat16', 'fla', '', true);
INSERT INTO public.entries VALUES (43, 'e754ef1dc795e81375fb2cc5e1a91162e73a2b3b99c7e58a1c25e9cf962c83da', 'sm90', 'mamba_ssm.ops.triton.ssd_chunk_scan._chunk_scan_bwd_dc_kernel', 'chunk_size=128|dstate=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32', 'chunk_size=128|dstate=128|hdim=64|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (44, 'e83b2537d4c92e42a88b29090a25d1e603a79dc1a8ee054037e9076383d77478', 'sm90', 'mamba_ssm.ops.triton.ssd_combined._chunk_scan_chunk_state_bwd_dx_kernel', 'chunk_size=128|hdim=64|dstate=128|torch.bfloat16|torch.float32|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'chunk_size=128|hdim=64|dstate=128|torch.bfloat16|torch.float32|torch.bfloat16|torch.float32|torch.float32|torch.float32|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32|torch.float32', 'mamba_ssm', '', true);
INSERT INTO public.entries VALUES (45, 'fa646afcb5dbc2f799b55f817e591e9295fcbce4d59be332c56ee039d74bc7af', 'sm90', 'fla.modules.norm.layernorm.layer_norm_fwd_kernel', 'D=128|NB=16|HAS_RESIDUAL=False|STORE_RESIDUAL_OUT=False|IS_RMS_NORM=True|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32', 'D=128|NB=16|HAS_RESIDUAL=0|STORE_RESIDUAL_OUT=0|IS_RMS_NORM=1|torch.bfloat16|torch.bfloat16|torch.bfloat16|torch.float32', 'fla', '', true);
INSERT INTO public.entries VALUES (46, '0bc5625bcf577950da49957337213c88af38204ed167baa795a9f834ed10b079', 'sm103', 'fla.once', 'M=1', 'M=1', 'fla', '', true);
INSERT INTO public.entries VALUES (47, '154131202b237072b95267592d5ab3dfa21278a620c83566e7b70934630caaeb', 'sm103', 'fla.k', 'M=1|é', 'M=1|é', 'fla', '', true);
INSERT INTO public.entries VALUES (48, 'f13c36e85e20cace6624d04680b6b703ce97150f1f5844dbe2a3827ebaa40f47', 'sm103', 'k', 'M=1', 'M=1', '', '', true);
INSERT INTO public.entries VALUES (49, '4ffe855a1ae221c134633dfc346806faa3e0b7408b4bd92190d9e3fad33f1201', 'sm100', 'pkg.k', 'M=1', 'M=1', 'pkg', '', true);
INSERT INTO public.entries VALUES (50, '4b5ce454311b16849a544d75181c78f4f175291bc99d9b0c69282d20965377bb', 'sm80', 'audited.k', 'M=2', 'M=2', 'audited', '', true);
INSERT INTO public.entries VALUES (51, 'efa187e1ec8cc243ab95213b0c5eba55e9c8c5b37ac5222614e44370827dc0d9', 'sm80', 'audited.k', 'M=1', 'M=1', 'audited', '', true);

INSERT INTO public.environment_modules VALUES (2, 'fla', 'fla-core', '0.6.0');

INSERT INTO public.environments VALUES (1, '41141678e1928785c03159bf2306e803041bbac8442a19d2b7de63ca8f7d5817', '3.6.0', '{}', '{}');
INSERT INTO public.environments VALUES (2, '41fb80fbb83bb3b542edc4ad341684b29f4fc2ad7879167076a695dd45a99191', '3.6.0', '{"fla-core": "0.6.0"}', '{"fla": "fla-core"}');
INSERT INTO public.environments VALUES (3, '294a4b22d4a7df2fc352fd2adea3f975a4d287d2bc9fc9a0b6ff9ede1a9b1247', '', '{}', '{}');

INSERT INTO public.exports VALUES (1, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'sm103', 'winner', '{}', '["demo"]', 1, 2, 'tables/sm103.json', 'ana@host', '2026-01-03T00:00:00+00:00', '5e1ec70000000000000000000000000000000000000000000000000000000000');

INSERT INTO public.hand_ins VALUES ('00000000000000000000000000000007', '2026-12-01T06:00:00.000000+00:00', 1, '\x789c030000000001', 'refused', 'hand-in: not a recording');

INSERT INTO public.kernel_sources VALUES (2, '66f4950c799244157308b5f2fcf5e06f9d54bdeae93afbc393141158becabf9c', 'pkg.k', '0000000000000000000000000000000000000000000000000000000000000000');
INSERT INTO public.kernel_sources VALUES (1, '66f4950c799244157308b5f2fcf5e06f9d54bdeae93afbc393141158becabf9c', 'pkg.k', '1111111111111111111111111111111111111111111111111111111111111111');

INSERT INTO public.observations VALUES (4, 46, 32, 'single candidate');
INSERT INTO public.observations VALUES (8, 49, 33, 'impossible time');

INSERT INTO public.override_events VALUES (1, 'ban', NULL, 'sm90', 'fla.k', 'M=1', 32, 'NaN in layer 3 — é', 'ana@host', NULL, '2026-01-02T03:04:05+00:00');
INSERT INTO public.override_events VALUES (2, 'lift', 1, 'sm90', 'fla.k', 'M=1', 32, 'NaN in layer 3 — é', 'ana@host', NULL, '2026-01-02T03:04:05+00:00');
INSERT INTO public.override_events VALUES (3, 'pin', NULL, 'sm90', 'fla.k', 'M=1', 32, 'NaN in layer 3 — é', 'ana@host', '2099-01-01T00:00:00+00:00', '2026-01-02T03:04:05+00:00');

INSERT INTO public.packed_candidate_sets VALUES (49, 'cc96c3e74f7e0fd1db323e3249b73648de307c425fdb4a581ba5d72c3f48949e', 8, 9, 2, '\x');

INSERT INTO public.packed_timings VALUES (49, 8, 9, 2, 4, '\x', '\x20000000000000002100000000000000', '\x01010200785e637070e267c0004c300623b22804fcf8515f0f0026770383', '\x01010400785e634ca8fcf71f041890011310332e686344110403900c1c3032605181097e00413d1000003c360dde');

INSERT INTO public.recorded_runs VALUES (1, 'demo', true, NULL);
INSERT INTO public.recorded_runs VALUES (2, 'job-1', true, NULL);
INSERT INTO public.recorded_runs VALUES (3, 'bad', true, '2026-11-30T00:00:00+00:00');
INSERT INTO public.recorded_runs VALUES (4, 'second', true, NULL);
INSERT INTO public.recorded_runs VALUES (5, 'audited', true, NULL);

INSERT INTO public.recording_archs VALUES (1, 'sm90', 45);
INSERT INTO public.recording_archs VALUES (2, 'sm90', 45);
INSERT INTO public.recording_archs VALUES (3, 'sm90', 45);
INSERT INTO public.recording_archs VALUES (4, 'sm103', 1);
INSERT INTO public.recording_archs VALUES (5, 'sm103', 1);
INSERT INTO public.recording_archs VALUES (6, 'sm103', 1);
INSERT INTO public.recording_archs VALUES (7, 'sm103', 1);
INSERT INTO public.recording_archs VALUES (9, 'sm100', 1);
INSERT INTO public.recording_archs VALUES (10, 'sm80', 2);
INSERT INTO public.recording_archs VALUES (11, 'sm80', 2);

INSERT INTO public.recordings VALUES (1, 1, 2, 1, '95a059904ee78b2616a284c7e4169d1ffc9658f08c368ae3883ca6506e2a1702', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'eight ranks on two H200s', '2026-11-30T08:29:17.091236+00:00', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.recordings VALUES (2, 1, 1, 1, '87696abfc17ec972709636d44364946a0555d706d8817606e4d489d5fb83c0cd', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'eight ranks on two H200s', '2026-11-30T08:29:17.091236+00:00', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.recordings VALUES (3, 1, 0, 1, 'cb5510b4f33170cc87fc937f4f4425d4dea416d96d0309bf2a2f77b567e44d0d', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'eight ranks on two H200s', '2026-11-30T08:29:17.091236+00:00', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.recordings VALUES (4, 2, 0, 2, 'c18edcc83e6a356dd6a481b386fbd2d501923b9838488765b82c75439ea4c360', NULL, 'affabd5f6a02509f03cec686ce35b35851873db212e8aa617002d94408ec091b', 4, 'node7', 'NVIDIA GB300', 'sm103', 148, '', '2026-11-30T08:29:17.333170+00:00', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.recordings VALUES (6, 3, 1, 3, '5e82d7dc4d81860186b9e98d01e1474adfa872e7b4d23f1cb2a5ce6e2a194ab8', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '2026-11-30T08:29:17.366757+00:00', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.recordings VALUES (5, 3, 0, 3, '5e82d7dc4d81860186b9e98d01e1474adfa872e7b4d23f1cb2a5ce6e2a194ab8', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '2026-11-30T08:29:17.366757+00:00', '2026-11-30T08:29:17.416412+00:00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.recordings VALUES (7, 3, 0, 3, 'e4f04fec6e98ad53984a3c387a8a0af8d7ac03fd2981b5893ce6f1acd3cc2aaa', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '2026-11-30T08:29:17.416412+00:00', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.recordings VALUES (8, 4, 0, 3, NULL, '1b710bcfcb84fdaea04027cf2f5e738b403c848e06581a9e2345d3d4563d8f9a', '05832b7e4642b772910f3b638ca260c56995d3afa2b5ecc60eb3e8dbfc08aa26', 2, NULL, NULL, NULL, NULL, '', '2026-12-01T05:14:57.620988+00:00', '', '00000000000000000000000000000000', 1, 0, NULL, 2, NULL, '{"later": 1}', NULL, NULL);
INSERT INTO public.recordings VALUES (9, 4, 1, 3, '8dafd26e3d5201bf1e7289b85c3dc9bb080a7fb2a968acc52f3c7ed3dc945a76', NULL, '05832b7e4642b772910f3b638ca260c56995d3afa2b5ecc60eb3e8dbfc08aa26', 2, NULL, NULL, NULL, NULL, '', '2026-12-01T05:14:57.620988+00:00', '', '00000000000000000000000000000001', 1, 1, NULL, 1, NULL, '{"later": 1}', NULL, NULL);
INSERT INTO public.recordings VALUES (10, 5, 0, 3, 'fd153806f654e8f2806b39d9d8ee01d2b0aa34ce24ceee97426ca89e492066d5', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '2026-12-01T10:05:35.466911+00:00', '', '00000000000000000000000000000258', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.recordings VALUES (11, 5, 1, 3, 'fd153806f654e8f2806b39d9d8ee01d2b0aa34ce24ceee97426ca89e492066d5', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '2026-12-01T10:05:35.466911+00:00', '', '00000000000000000000000000000259', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

INSERT INTO public.source_sets VALUES (1, '5d176d124e56da7f352ce2ae809510d55ac353f8d0a916211cc8a1788834ecf3');
INSERT INTO public.source_sets VALUES (2, 'af1159d060be6ab2332de375e704987f5a03f4c7b81436a9697c5e4fee2f5b99');

INSERT INTO public.timings VALUES (47, 32, 4, 0.1, 0.09, 0.12);
INSERT INTO public.timings VALUES (47, 33, 4, NULL, NULL, NULL);

INSERT INTO public.tuning_registry_alembic_version VALUES ('0009');

INSERT INTO public.votes VALUES (1, 6, 1);
INSERT INTO public.votes VALUES (1, 6, 2);
INSERT INTO public.votes VALUES (1, 6, 3);
INSERT INTO public.votes VALUES (2, 11, 1);
INSERT INTO public.votes VALUES (2, 11, 3);
INSERT INTO public.votes VALUES (2, 24, 2);
INSERT INTO public.votes VALUES (3, 28, 1);
INSERT INTO public.votes VALUES (3, 28, 2);
INSERT INTO public.votes VALUES (3, 28, 3);
INSERT INTO public.votes VALUES (4, 2, 1);
INSERT INTO public.votes VALUES (4, 2, 2);
INSERT INTO public.votes VALUES (4, 2, 3);
INSERT INTO public.votes VALUES (5, 21, 1);
INSERT INTO public.votes VALUES (5, 21, 2);
INSERT INTO public.votes VALUES (5, 21, 3);
INSERT INTO public.votes VALUES (6, 19, 1);
INSERT INTO public.votes VALUES (6, 19, 2);
INSERT INTO public.votes VALUES (6, 19, 3);
INSERT INTO public.votes VALUES (7, 28, 1);
INSERT INTO public.votes VALUES (7, 28, 2);
INSERT INTO public.votes VALUES (7, 28, 3);
INSERT INTO public.votes VALUES (8, 28, 1);
INSERT INTO public.votes VALUES (8, 28, 2);
INSERT INTO public.votes VALUES (8, 28, 3);
INSERT INTO public.votes VALUES (9, 20, 1);
INSERT INTO public.votes VALUES (9, 20, 2);
INSERT INTO public.votes VALUES (9, 20, 3);
INSERT INTO public.votes VALUES (10, 9, 1);
INSERT INTO public.votes VALUES (10, 9, 2);
INSERT INTO public.votes VALUES (10, 9, 3);
INSERT INTO public.votes VALUES (11, 20, 1);
INSERT INTO public.votes VALUES (11, 20, 2);
INSERT INTO public.votes VALUES (11, 20, 3);
INSERT INTO public.votes VALUES (12, 16, 1);
INSERT INTO public.votes VALUES (12, 16, 3);
INSERT INTO public.votes VALUES (12, 29, 2);
INSERT INTO public.votes VALUES (13, 1, 1);
INSERT INTO public.votes VALUES (13, 1, 2);
INSERT INTO public.votes VALUES (13, 1, 3);
INSERT INTO public.votes VALUES (14, 21, 1);
INSERT INTO public.votes VALUES (14, 21, 2);
INSERT INTO public.votes VALUES (14, 21, 3);
INSERT INTO public.votes VALUES (15, 18, 1);
INSERT INTO public.votes VALUES (15, 18, 2);
INSERT INTO public.votes VALUES (15, 18, 3);
INSERT INTO public.votes VALUES (16, 23, 1);
INSERT INTO public.votes VALUES (16, 23, 2);
INSERT INTO public.votes VALUES (16, 23, 3);
INSERT INTO public.votes VALUES (17, 21, 1);
INSERT INTO public.votes VALUES (17, 21, 2);
INSERT INTO public.votes VALUES (17, 21, 3);
INSERT INTO public.votes VALUES (18, 9, 1);
INSERT INTO public.votes VALUES (18, 9, 2);
INSERT INTO public.votes VALUES (18, 15, 3);
INSERT INTO public.votes VALUES (19, 10, 1);
INSERT INTO public.votes VALUES (19, 10, 2);
INSERT INTO public.votes VALUES (19, 10, 3);
INSERT INTO public.votes VALUES (20, 7, 1);
INSERT INTO public.votes VALUES (20, 18, 2);
INSERT INTO public.votes VALUES (20, 18, 3);
INSERT INTO public.votes VALUES (21, 14, 1);
INSERT INTO public.votes VALUES (21, 14, 2);
INSERT INTO public.votes VALUES (21, 14, 3);
INSERT INTO public.votes VALUES (22, 20, 1);
INSERT INTO public.votes VALUES (22, 20, 2);
INSERT INTO public.votes VALUES (22, 20, 3);
INSERT INTO public.votes VALUES (23, 27, 1);
INSERT INTO public.votes VALUES (23, 27, 2);
INSERT INTO public.votes VALUES (23, 27, 3);
INSERT INTO public.votes VALUES (24, 11, 1);
INSERT INTO public.votes VALUES (24, 11, 2);
INSERT INTO public.votes VALUES (24, 16, 3);
INSERT INTO public.votes VALUES (25, 25, 1);
INSERT INTO public.votes VALUES (25, 25, 2);
INSERT INTO public.votes VALUES (25, 25, 3);
INSERT INTO public.votes VALUES (26, 18, 1);
INSERT INTO public.votes VALUES (26, 18, 2);
INSERT INTO public.votes VALUES (26, 26, 3);
INSERT INTO public.votes VALUES (27, 21, 1);
INSERT INTO public.votes VALUES (27, 21, 2);
INSERT INTO public.votes VALUES (27, 21, 3);
INSERT INTO public.votes VALUES (28, 3, 1);
INSERT INTO public.votes VALUES (28, 3, 2);
INSERT INTO public.votes VALUES (28, 13, 3);
INSERT INTO public.votes VALUES (29, 19, 1);
INSERT INTO public.votes VALUES (29, 19, 2);
INSERT INTO public.votes VALUES (29, 19, 3);
INSERT INTO public.votes VALUES (30, 31, 1);
INSERT INTO public.votes VALUES (30, 31, 2);
INSERT INTO public.votes VALUES (30, 31, 3);
INSERT INTO public.votes VALUES (31, 5, 1);
INSERT INTO public.votes VALUES (31, 5, 2);
INSERT INTO public.votes VALUES (31, 5, 3);
INSERT INTO public.votes VALUES (32, 19, 1);
INSERT INTO public.votes VALUES (32, 19, 2);
INSERT INTO public.votes VALUES (32, 19, 3);
INSERT INTO public.votes VALUES (33, 27, 1);
INSERT INTO public.votes VALUES (33, 27, 2);
INSERT INTO public.votes VALUES (33, 27, 3);
INSERT INTO public.votes VALUES (34, 21, 1);
INSERT INTO public.votes VALUES (34, 21, 2);
INSERT INTO public.votes VALUES (34, 21, 3);
INSERT INTO public.votes VALUES (35, 3, 1);
INSERT INTO public.votes VALUES (35, 3, 2);
INSERT INTO public.votes VALUES (35, 3, 3);
INSERT INTO public.votes VALUES (36, 30, 1);
INSERT INTO public.votes VALUES (36, 30, 2);
INSERT INTO public.votes VALUES (36, 30, 3);
INSERT INTO public.votes VALUES (37, 28, 1);
INSERT INTO public.votes VALUES (37, 28, 2);
INSERT INTO public.votes VALUES (37, 28, 3);
INSERT INTO public.votes VALUES (38, 30, 1);
INSERT INTO public.votes VALUES (38, 30, 2);
INSERT INTO public.votes VALUES (38, 30, 3);
INSERT INTO public.votes VALUES (39, 4, 2);
INSERT INTO public.votes VALUES (39, 4, 3);
INSERT INTO public.votes VALUES (39, 21, 1);
INSERT INTO public.votes VALUES (40, 12, 3);
INSERT INTO public.votes VALUES (40, 17, 1);
INSERT INTO public.votes VALUES (40, 17, 2);
INSERT INTO public.votes VALUES (41, 31, 1);
INSERT INTO public.votes VALUES (41, 31, 2);
INSERT INTO public.votes VALUES (41, 31, 3);
INSERT INTO public.votes VALUES (42, 22, 1);
INSERT INTO public.votes VALUES (42, 22, 2);
INSERT INTO public.votes VALUES (42, 22, 3);
INSERT INTO public.votes VALUES (43, 8, 1);
INSERT INTO public.votes VALUES (43, 8, 2);
INSERT INTO public.votes VALUES (43, 8, 3);
INSERT INTO public.votes VALUES (44, 5, 1);
INSERT INTO public.votes VALUES (44, 5, 2);
INSERT INTO public.votes VALUES (44, 5, 3);
INSERT INTO public.votes VALUES (45, 9, 2);
INSERT INTO public.votes VALUES (45, 24, 1);
INSERT INTO public.votes VALUES (45, 24, 3);
INSERT INTO public.votes VALUES (47, 32, 4);
INSERT INTO public.votes VALUES (48, 32, 5);
INSERT INTO public.votes VALUES (48, 32, 6);
INSERT INTO public.votes VALUES (48, 33, 7);
INSERT INTO public.votes VALUES (49, 32, 9);
INSERT INTO public.votes VALUES (50, 32, 10);
INSERT INTO public.votes VALUES (50, 32, 11);
INSERT INTO public.votes VALUES (51, 32, 10);
INSERT INTO public.votes VALUES (51, 32, 11);

SELECT pg_catalog.setval('public.audit_blocks_id_seq', 2, true);

SELECT pg_catalog.setval('public.configs_id_seq', 33, true);

SELECT pg_catalog.setval('public.entries_id_seq', 51, true);

SELECT pg_catalog.setval('public.environments_id_seq', 3, true);

SELECT pg_catalog.setval('public.exports_id_seq', 1, true);

SELECT pg_catalog.setval('public.hardware_id_seq', 1, false);

SELECT pg_catalog.setval('public.origins_id_seq', 1, false);

SELECT pg_catalog.setval('public.override_events_id_seq', 3, true);

SELECT pg_catalog.setval('public.recorded_runs_id_seq', 5, true);

SELECT pg_catalog.setval('public.recordings_id_seq', 11, true);

SELECT pg_catalog.setval('public.source_sets_id_seq', 2, true);

ALTER TABLE ONLY public.audit_blocks
    ADD CONSTRAINT pk_audit_blocks PRIMARY KEY (id);

ALTER TABLE ONLY public.audits
    ADD CONSTRAINT pk_audits PRIMARY KEY (entry_id, recording_id);

ALTER TABLE ONLY public.candidate_sets
    ADD CONSTRAINT pk_candidate_sets PRIMARY KEY (entry_id, fingerprint, recording_id);

ALTER TABLE ONLY public.configs
    ADD CONSTRAINT pk_configs PRIMARY KEY (id);

ALTER TABLE ONLY public.curated_choices
    ADD CONSTRAINT pk_curated_choices PRIMARY KEY (entry_id, origin_id);

ALTER TABLE ONLY public.entries
    ADD CONSTRAINT pk_entries PRIMARY KEY (id);

ALTER TABLE ONLY public.environment_modules
    ADD CONSTRAINT pk_environment_modules PRIMARY KEY (environment_id, module);

ALTER TABLE ONLY public.environments
    ADD CONSTRAINT pk_environments PRIMARY KEY (id);

ALTER TABLE ONLY public.exports
    ADD CONSTRAINT pk_exports PRIMARY KEY (id);

ALTER TABLE ONLY public.hand_ins
    ADD CONSTRAINT pk_hand_ins PRIMARY KEY (id);

ALTER TABLE ONLY public.hardware
    ADD CONSTRAINT pk_hardware PRIMARY KEY (id);

ALTER TABLE ONLY public.kernel_sources
    ADD CONSTRAINT pk_kernel_sources PRIMARY KEY (source_set_id, kernel_digest);

ALTER TABLE ONLY public.observations
    ADD CONSTRAINT pk_observations PRIMARY KEY (recording_id, entry_id);

ALTER TABLE ONLY public.origins
    ADD CONSTRAINT pk_origins PRIMARY KEY (id);

ALTER TABLE ONLY public.override_events
    ADD CONSTRAINT pk_override_events PRIMARY KEY (id);

ALTER TABLE ONLY public.packed_candidate_sets
    ADD CONSTRAINT pk_packed_candidate_sets PRIMARY KEY (entry_id, fingerprint, first_recording);

ALTER TABLE ONLY public.packed_timings
    ADD CONSTRAINT pk_packed_timings PRIMARY KEY (entry_id, first_recording);

ALTER TABLE ONLY public.recorded_runs
    ADD CONSTRAINT pk_recorded_runs PRIMARY KEY (id);

ALTER TABLE ONLY public.recording_archs
    ADD CONSTRAINT pk_recording_archs PRIMARY KEY (recording_id, arch);

ALTER TABLE ONLY public.recordings
    ADD CONSTRAINT pk_recordings PRIMARY KEY (id);

ALTER TABLE ONLY public.source_sets
    ADD CONSTRAINT pk_source_sets PRIMARY KEY (id);

ALTER TABLE ONLY public.timings
    ADD CONSTRAINT pk_timings PRIMARY KEY (entry_id, config_id, recording_id);

ALTER TABLE ONLY public.votes
    ADD CONSTRAINT pk_votes PRIMARY KEY (entry_id, config_id, recording_id);

ALTER TABLE ONLY public.tuning_registry_alembic_version
    ADD CONSTRAINT tuning_registry_alembic_version_pkc PRIMARY KEY (version_num);

ALTER TABLE ONLY public.audit_blocks
    ADD CONSTRAINT uq_audit_blocks_digest UNIQUE (digest);

ALTER TABLE ONLY public.configs
    ADD CONSTRAINT uq_configs_digest UNIQUE (digest);

ALTER TABLE ONLY public.entries
    ADD CONSTRAINT uq_entries_digest UNIQUE (digest);

ALTER TABLE ONLY public.environments
    ADD CONSTRAINT uq_environments_digest UNIQUE (digest);

ALTER TABLE ONLY public.hardware
    ADD CONSTRAINT uq_hardware_digest UNIQUE (digest);

ALTER TABLE ONLY public.origins
    ADD CONSTRAINT uq_origins_digest UNIQUE (digest);

ALTER TABLE ONLY public.recorded_runs
    ADD CONSTRAINT uq_recorded_runs_name UNIQUE (name);

ALTER TABLE ONLY public.recordings
    ADD CONSTRAINT uq_recordings_run_id_rank_superseded_at UNIQUE (run_id, rank, superseded_at);

ALTER TABLE ONLY public.source_sets
    ADD CONSTRAINT uq_source_sets_digest UNIQUE (digest);

CREATE INDEX ix_entries_is_recorded ON public.entries USING btree (is_recorded);

CREATE INDEX ix_exports_table_digest ON public.exports USING btree (table_digest);

CREATE INDEX ix_hand_ins_state_received_at ON public.hand_ins USING btree (state, received_at);

CREATE INDEX ix_recordings_process_id ON public.recordings USING btree (process_id);

CREATE INDEX ix_recordings_votes_digest ON public.recordings USING btree (votes_digest);

ALTER TABLE ONLY public.environment_modules
    ADD CONSTRAINT fk_environment_modules_environment_id FOREIGN KEY (environment_id) REFERENCES public.environments(id);

ALTER TABLE ONLY public.kernel_sources
    ADD CONSTRAINT fk_kernel_sources_source_set_id FOREIGN KEY (source_set_id) REFERENCES public.source_sets(id);

ALTER TABLE ONLY public.override_events
    ADD CONSTRAINT fk_override_events_config_id FOREIGN KEY (config_id) REFERENCES public.configs(id);

ALTER TABLE ONLY public.override_events
    ADD CONSTRAINT fk_override_events_lifts FOREIGN KEY (lifts) REFERENCES public.override_events(id);

ALTER TABLE ONLY public.recording_archs
    ADD CONSTRAINT fk_recording_archs_recording_id FOREIGN KEY (recording_id) REFERENCES public.recordings(id);

ALTER TABLE ONLY public.recordings
    ADD CONSTRAINT fk_recordings_environment_id FOREIGN KEY (environment_id) REFERENCES public.environments(id);

ALTER TABLE ONLY public.recordings
    ADD CONSTRAINT fk_recordings_run_id FOREIGN KEY (run_id) REFERENCES public.recorded_runs(id);

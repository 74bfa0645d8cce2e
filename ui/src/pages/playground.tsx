import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Boundary } from '../parts/boundary.tsx';
import { Empty, Failure, Unread } from '../parts/notes.tsx';
import { href, route, setQuery } from '../router.ts';
import { serverList } from '../servers.ts';
import { AnswerView, WireView } from './playground/answer-view.tsx';
import { AppView, appUriOf } from './playground/app-view.tsx';
import { callerIn, kindOf, METHODS, namedParams, nameOf, targetTool } from './playground/call-address.ts';
import { CallerFields } from './playground/caller-fields.tsx';
import { CopyAs } from './playground/copy-as-view.tsx';
import { isObject, type JsonObject, objectFault, parseExact } from './playground/exact-json.ts';
import { listAll, PlayedRun } from './playground/play.ts';
import { Question } from './playground/question.tsx';
import { type Fault, type FormSchema, faultsOf, initialOf } from './playground/schema.ts';
import { SchemaForm } from './playground/schema-form.tsx';
import { definitionOf, followTools, tools, toolsReader } from './tools/catalog.ts';
import './tools/tools.css';
import './playground/playground.css';

/** In the sentence that says which values are not right. */
const MOST_NAMED = 6;

/** `#/playground?server=…&tool=…&args={…}&endpoint=…&as=…&revision=…&node=…&method=…` */
export default function Playground() {
  useEffect(followTools, []);
  const run = useSignal<PlayedRun | null>(null);
  useEffect(() => () => run.value?.leave(), []);
  if (tools.value === null) return <Unread of={toolsReader} what="tools" />;
  const { query } = route.value;
  const method = query.get('method') ?? 'tools/call';
  return (
    <>
      <h1>Playground</h1>
      <p class="soft">Calls a method as a real client of the gateway does, and shows what that client gets.</p>
      <div class="playground">
        <div>
          <CallerFields query={query} />
          <Call key={`${method} ${nameOf(query)}`} method={method} query={query} run={run} />
        </div>
        <div class="play-side">
          {run.value === null ? (
            <NothingYet />
          ) : (
            <Boundary what="The call could not be shown" of={run.value}>
              {run.value.view === viewOf(query) ? null : (
                <p class="soft" role="note">
                  From an earlier call: {calledBy(run.value)}
                </p>
              )}
              <RunView run={run.value} />
            </Boundary>
          )}
        </div>
      </div>
    </>
  );
}

function NothingYet() {
  return (
    <Empty title="No call yet">
      <p>
        Choose a method and press Call. The answer, questions of the server and every message of the wire appear here.
      </p>
    </Empty>
  );
}

interface CallProps {
  readonly method: string;
  readonly query: URLSearchParams;
  readonly run: { value: PlayedRun | null };
}

function Call({ method, query, run }: CallProps) {
  const caller = callerIn(query);
  const tool = targetTool(tools.value ?? [], query);
  const kind = kindOf(method);
  const schema: FormSchema = kind === 'tool' ? ((tool === null ? {} : definitionOf(tool).inputSchema) ?? {}) : {};
  const given = givenArguments(query.get('args'));
  const value = useSignal<JsonObject>(given ?? ((initialOf(schema, schema, true) ?? {}) as JsonObject));
  const text = useSignal<string | null>(null);
  const tried = useSignal(false);
  const fault = text.value === null ? null : objectFault(text.value);
  const faults: readonly Fault[] = text.value === null ? faultsOf(value.value, schema, schema) : [];
  const set = (next: JsonObject): void => {
    value.value = next;
    setQuery({ args: JSON.stringify(next) === '{}' ? '' : JSON.stringify(next) });
  };
  const request = { ...caller, method, params: namedParams(method, tool, query, value.value) };
  const busy = run.value?.busy === true;
  const missing = kind !== null && nameOf(query) === '' ? `Choose a ${kind} first` : null;
  const start = (): void => {
    run.value = new PlayedRun(request, viewOf(query));
    void run.value.run();
  };
  const press = (event: Event): void => {
    event.preventDefault();
    tried.value = true;
    if (fault !== null || faults.length > 0 || missing !== null || busy) return;
    start();
  };
  return (
    <form class="panel" onSubmit={press} noValidate>
      <div class="toolbar">
        <select
          aria-label="Method"
          value={method}
          onChange={({ currentTarget }) => setQuery({ method: currentTarget.value, args: '' })}
        >
          {METHODS.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
        {kind === null ? null : <Target kind={kind} query={query} />}
      </div>
      {kind === 'tool' ? <NoTools server={caller.server} /> : null}
      {missing !== null && tried.value ? <p class="field-fault">{missing}</p> : null}
      {tool === null ? null : <p class="tool-words soft">{definitionOf(tool).description}</p>}
      <div class="schema-title">
        <h3>{kind === null ? 'Parameters' : 'Arguments'}</h3>
        <button
          type="button"
          class="plain"
          aria-pressed={text.value !== null}
          onClick={() => (text.value = text.value === null ? JSON.stringify(value.value, null, 2) : null)}
          disabled={fault !== null}
        >
          {text.value === null ? 'As JSON' : 'As a form'}
        </button>
      </div>
      {text.value === null ? (
        <SchemaForm schema={schema} value={value.value} faults={tried.value ? faults : []} onChange={set} />
      ) : (
        <textarea
          aria-label="Arguments as JSON"
          rows={10}
          spellcheck={false}
          value={text.value}
          aria-invalid={fault !== null}
          onInput={({ currentTarget }) => {
            text.value = currentTarget.value;
            if (objectFault(text.value) === null) set(parseExact(text.value) as JsonObject);
          }}
        />
      )}
      {fault === null ? null : <p class="field-fault">{fault}</p>}
      {tried.value && faults.length > 0 ? (
        <p class="field-fault" role="alert">
          {faults.length === 1 ? 'One value is' : `${faults.length} values are`} not right: {wrongIn(faults)}
        </p>
      ) : null}
      <p class="toolbar">
        <button type="submit" disabled={busy}>
          {busy ? 'Calling…' : 'Call'}
        </button>
        {busy ? (
          <button type="button" onClick={() => void run.value?.cancel()}>
            Cancel
          </button>
        ) : null}
        {tried.value && faults.length > 0 && !busy ? (
          <button type="button" onClick={start}>
            Call all the same
          </button>
        ) : null}
      </p>
      <CopyAs request={request} tool={tool} run={run.value} />
    </form>
  );
}

/** Why there is nothing to choose at the endpoint of a server. */
function NoTools({ server }: { readonly server: string | null }) {
  if (server === null || tools.value?.some((tool) => tool.server === server) === true) return null;
  const found = serverList.value.find(({ name }) => name === server);
  return (
    <p class="field-fault">
      {server} offers no tools{found === undefined ? '' : `: its state is ${found.state.replaceAll('_', ' ')}`}.{' '}
      {found?.reason} <a href={href(['servers', server])}>Look at the server</a>
    </p>
  );
}

/** What is called: a tool, a prompt or a resource, with what the endpoint has to choose from. */
function Target({ kind, query }: { readonly kind: 'tool' | 'prompt' | 'resource'; readonly query: URLSearchParams }) {
  const listed = useSignal<readonly string[]>([]);
  const caller = callerIn(query);
  useEffect(() => {
    if (kind === 'tool') return;
    const key = kind === 'prompt' ? 'prompts' : 'resources';
    listAll(caller, `${key}/list`, key).then(
      (items) => (listed.value = items.map((item) => String(item[kind === 'prompt' ? 'name' : 'uri']))),
      () => (listed.value = []),
    );
  }, [kind, caller.server, caller.principal, caller.revision, caller.node]);
  if (kind === 'tool') {
    const tool = targetTool(tools.value ?? [], query);
    const byServer = Map.groupBy(tools.value ?? [], ({ server }) => server);
    return (
      <select
        class="target"
        aria-label="Tool"
        value={tool?.exposedName ?? ''}
        onChange={({ currentTarget }) => {
          const chosen = tools.value?.find(({ exposedName }) => exposedName === currentTarget.value);
          setQuery({ server: chosen?.server ?? '', tool: chosen?.name ?? '', args: '' });
        }}
      >
        <option value="">Choose a tool…</option>
        {[...byServer].map(([server, own]) => (
          <optgroup key={server} label={server}>
            {own.map(({ name, exposedName }) => (
              <option key={exposedName} value={exposedName}>
                {name}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
    );
  }
  return (
    <>
      <input
        type="text"
        class="target"
        list="targets"
        aria-label={kind === 'prompt' ? 'Prompt' : 'URI of the resource'}
        placeholder={kind === 'prompt' ? 'Name of the prompt' : 'URI of the resource'}
        value={query.get('target') ?? ''}
        onChange={({ currentTarget }) => setQuery({ target: currentTarget.value })}
      />
      <datalist id="targets">
        {listed.value.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  );
}

function RunView({ run }: { readonly run: PlayedRun }) {
  const progress = run.progress.value;
  const { method, params, server, principal, node } = run.request;
  const tool = (tools.value ?? []).find(({ exposedName, name, server: owner }) =>
    server === null ? exposedName === params['name'] : owner === server && name === params['name'],
  );
  const hasApp = method === 'tools/call' && tool !== undefined && appUriOf(tool, run.request) !== null;
  return (
    <>
      {run.busy ? (
        <section class="panel" aria-label="Progress">
          <p role="status">
            Waiting for {String(params['name'] ?? method)}
            {principal === null ? '' : ` as ${principal}`}
            {node === null ? '' : ` at node ${node}`}… {progress?.message ?? ''}
          </p>
          <progress
            aria-label="Progress of the call"
            max={progress?.total ?? 1}
            {...(progress?.total === undefined ? {} : { value: progress.progress ?? 0 })}
          />
          {progress === null ? null : (
            <span class="soft">
              {' '}
              {progress.progress}
              {progress.total === undefined ? '' : ` of ${progress.total}`}
            </span>
          )}
        </section>
      ) : null}
      {run.questions.value.map((question) => (
        <Question key={question.key} run={run} question={question} />
      ))}
      {run.failure.value === null ? null : <Failure what="The call was not made" error={run.failure.value} />}
      <AnswerView run={run} />
      {hasApp && run.answer.value?.result !== undefined ? (
        <AppView caller={run.request} tools={tools.value ?? []} tool={tool} run={run} />
      ) : null}
      <WireView run={run} />
    </>
  );
}

/** What an address chooses: a call of another one is not what the page shows. */
function viewOf(query: URLSearchParams): string {
  return JSON.stringify([query.get('method') ?? 'tools/call', nameOf(query), callerIn(query)]);
}

function calledBy({ request: { method, params, server } }: PlayedRun): string {
  const name = params['name'] ?? params['uri'] ?? '';
  return `${method} ${String(name)}`.trim() + (server === null ? ' at /mcp' : ` at /servers/${server}/mcp`);
}

/** The names, once each, of the first few. */
function wrongIn(faults: readonly Fault[]): string {
  const names = [...new Set(faults.map(({ path }) => path.slice(1) || 'the arguments'))];
  return names.length > MOST_NAMED ? `${names.slice(0, MOST_NAMED).join(', ')}, …` : names.join(', ');
}

function givenArguments(text: string | null): JsonObject | null {
  if (text === null || text === '') return null;
  try {
    const value = parseExact(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

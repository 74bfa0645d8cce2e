import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { readDefinitions } from '../../api/operations.ts';
import { ApiError, execToken } from '../../api/request.ts';
import { Command } from '../../parts/command.tsx';
import { Failure } from '../../parts/notes.tsx';
import { errorText, toast } from '../../parts/toasts.tsx';
import { href, navigate } from '../../router.ts';
import { putServer } from '../../servers.ts';
import { addCommand } from './add-command.ts';
import { addWithSecrets, type NewServer } from './add-with-secrets.ts';
import { FromRegistry, InputField } from './from-registry.tsx';

const EXAMPLE = '{ "mcpServers": { "docs": { "type": "http", "url": "https://example.com/mcp" } } }';

type Offer = Parameters<typeof readDefinitions>[0]['body'];
type Read = Awaited<ReturnType<typeof readDefinitions>>;
type Warning = Read['warnings'][number];
type Input = Read['lacking'][number];

/** What became of the last press of a button. */
interface Outcome {
  readonly added: readonly string[];
  /** Not added after the one that failed; pressing again adds these. */
  readonly rest: readonly string[];
  readonly error: Error | null;
  readonly warnings: readonly Warning[];
}

const NOTHING: Outcome = { added: [], rest: [], error: null, warnings: [] };

/** Adds servers: from a command or URL, from the text of clients' files and of pages about servers, or from a registry. */
export function AddServer() {
  const name = useSignal('');
  const target = useSignal('');
  const document = useSignal('');
  const outcome = useSignal<Outcome>(NOTHING);
  const inputs = useSignal<readonly Input[]>([]);
  const values = useSignal<Readonly<Record<string, string>>>({});
  const busy = useSignal(false);
  const attempt = async (run: () => Promise<void>): Promise<void> => {
    if (busy.value) return;
    busy.value = true;
    outcome.value = NOTHING;
    await run().catch((error: Error) => (outcome.value = { ...NOTHING, error }));
    busy.value = false;
  };
  const addAll = async (
    fresh: readonly NewServer[],
    there: readonly string[] = [],
    warnings: readonly Warning[] = [],
  ): Promise<void> => {
    const added: string[] = [];
    for (const one of fresh) {
      try {
        const server = await addWithSecrets(one);
        putServer(server);
        added.push(server.name);
      } catch (cause) {
        const rest = fresh.slice(added.length).map(({ definition }) => String(definition['name']));
        outcome.value = { added, rest, error: cause as Error, warnings };
        return;
      }
    }
    const done = [
      ...(added.length === 0 ? [] : [`Added ${added.join(', ')}`]),
      ...(there.length === 0 ? [] : [`${there.join(', ')} ${there.length === 1 ? 'is' : 'are'} there already`]),
    ];
    if (done.length > 0) toast('good', done.join('; '));
    outcome.value = { ...NOTHING, added, warnings };
    // The warnings are on this page.
    if (warnings.length > 0) return;
    const names = [...added, ...there];
    navigate(names.length === 1 ? ['servers', ...names] : ['servers']);
  };
  const offer = (body: Offer): Promise<void> =>
    attempt(async () => {
      const { servers, lacking, warnings } = await readDefinitions({ body });
      const taken = servers.flatMap((server) => server.taken ?? []);
      if (taken.length > 0) throw new Error(taken.join('\n'));
      // What stays empty then is left out.
      if (lacking.some(({ id }) => !inputs.value.some((one) => one.id === id))) {
        inputs.value = lacking;
        return;
      }
      const [there, fresh] = [servers.filter((one) => one.there), servers.filter((one) => !one.there)];
      await addAll(
        fresh,
        there.map((one) => one.name),
        warnings,
      );
    });
  return (
    <>
      <p>
        <a href={href(['servers'])}>Servers</a>
      </p>
      <h1>Add a server</h1>
      <Became {...outcome.value} />
      <form
        class="panel"
        onSubmit={(event) => {
          event.preventDefault();
          void offer({ command: target.value.trim(), name: name.value.trim() || null });
        }}
      >
        <label>
          Name
          <input
            value={name.value}
            placeholder="from the URL or command"
            onInput={(event) => (name.value = event.currentTarget.value)}
          />
        </label>
        <label>
          URL, or command with its arguments
          <input required value={target.value} onInput={(event) => (target.value = event.currentTarget.value)} />
        </label>
        <ExecToken error={outcome.value.error} />
        <button type="submit" disabled={busy.value}>
          Add
        </button>{' '}
        <Command text={addCommand(target.value, name.value.trim())} />
      </form>
      <form
        class="panel"
        onSubmit={(event) => {
          event.preventDefault();
          void offer({ document: document.value, name: name.value.trim() || null, values: values.value });
        }}
      >
        <label>
          Or the text of a client's file, or the part of it that a page shows
          <textarea
            required
            rows={6}
            placeholder={EXAMPLE}
            value={document.value}
            onInput={(event) => {
              document.value = event.currentTarget.value;
              [inputs.value, values.value] = [[], {}];
            }}
          />
        </label>
        {inputs.value.length === 0 ? null : (
          <p role="status">The text asks for these values. Servers whose values stay empty are left out.</p>
        )}
        {inputs.value.map(({ id, description, secret }) => (
          <InputField
            key={id}
            input={{ name: id, description, secret, required: false, choices: null, default: null }}
            value={values.value[id] ?? ''}
            change={(value) => (values.value = { ...values.value, [id]: value })}
          />
        ))}
        <button type="submit" disabled={busy.value}>
          Add all of it
        </button>{' '}
        <Command text="trunkline import mcp.json" />
        <p class="soft">
          The command takes the text from a file. With the exec token, secrets in it go to the store of secrets.
        </p>
      </form>
      <FromRegistry submit={(prepare) => attempt(async () => addAll([await prepare()]))} />
    </>
  );
}

function Became({ added, rest, error, warnings }: Outcome) {
  const which = added.join(', ');
  const again = rest.length > 1 || added.length > 0 ? `\nPressing the button again adds ${rest.join(', ')}.` : '';
  const left = warnings.map((one) => `${one.line}:${one.column}  ${one.message}`).join('\n');
  return (
    <>
      {error === null ? null : (
        <Failure
          what={which === '' ? 'Nothing was added' : `Only ${which} ${added.length === 1 ? 'was' : 'were'} added`}
          error={again === '' ? error : new Error(`${errorText(error)}${again}`)}
        />
      )}
      {warnings.length === 0 ? null : (
        <div class="note tone-warn" role="status">
          <h2>{error !== null ? 'To know' : which === '' ? 'Nothing was added' : `Added ${which}`}</h2>
          <pre>{left}</pre>
        </div>
      )}
    </>
  );
}

const EXEC_FAULTS: Readonly<Record<string, string>> = {
  exec_required: 'What you add takes the right servers:exec:',
  exec_token_wrong: 'This is not the exec token of this gateway:',
};

/** `error`: of the last press of a button, which may be about this field. */
function ExecToken({ error }: { readonly error: Error | null }) {
  const field = useRef<HTMLInputElement>(null);
  const fault = error instanceof ApiError ? EXEC_FAULTS[error.code] : undefined;
  useEffect(() => {
    if (fault !== undefined) field.current?.focus();
  }, [error]);
  return (
    <>
      <label>
        Exec token, for servers that run a program (the file <code>exec.token</code> of the data folder)
        <input
          ref={field}
          type="password"
          autocomplete="off"
          value={execToken.value ?? ''}
          aria-invalid={fault !== undefined}
          aria-describedby="exec-fault"
          onInput={(event) => {
            execToken.value = event.currentTarget.value.trim() || null;
          }}
        />
      </label>
      <p id="exec-fault" class="tone-bad">
        {fault === undefined
          ? null
          : `${fault} paste here what the file exec.token has, and press the button again. On the machine of the gateway, trunkline doctor shows its data folder; there, trunkline add needs no token.`}
      </p>
    </>
  );
}

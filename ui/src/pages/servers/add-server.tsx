import { useSignal } from '@preact/signals';
import { addServer } from '../../api/operations.ts';
import { execToken } from '../../api/request.ts';
import { Command, shellWord } from '../../parts/command.tsx';
import { Failure } from '../../parts/notes.tsx';
import { toast } from '../../parts/toasts.tsx';
import { href, navigate } from '../../router.ts';
import { putServer } from '../../servers.ts';
import { FromRegistry } from './from-registry.tsx';

const EXAMPLE = '{ "mcpServers": { "docs": { "type": "http", "url": "https://example.com/mcp" } } }';

type Definition = Readonly<Record<string, unknown>>;

/** Adds servers: from a name and a command or URL, from the JSON that clients keep and pages of servers show, or from a registry. */
export function AddServer() {
  const name = useSignal('');
  const target = useSignal('');
  const json = useSignal('');
  const error = useSignal<Error | null>(null);
  /** Before the one that failed. */
  const kept = useSignal<readonly string[]>([]);
  const submit = async (definitions: () => readonly Definition[] | Promise<readonly Definition[]>): Promise<void> => {
    error.value = null;
    const added: string[] = [];
    try {
      for (const body of await definitions()) {
        const server = await addServer({ body });
        putServer(server);
        added.push(server.name);
      }
      toast('good', `Added ${added.join(', ')}`);
      navigate(added.length === 1 ? ['servers', ...added] : ['servers']);
    } catch (cause) {
      kept.value = added;
      error.value = cause as Error;
    }
  };
  const isUrl = URL.canParse(target.value) && /^https?:/.test(target.value);
  const words = isUrl ? [target.value.trim()] : ['--', ...commandWords(target.value)];
  const shown = `${name.value === '' ? '<name>' : shellWord(name.value.trim())} ${words.map(shellWord).join(' ')}${target.value === '' ? ' <command>' : ''}`;
  return (
    <>
      <p>
        <a href={href(['servers'])}>Servers</a>
      </p>
      <h1>Add a server</h1>
      {error.value === null ? null : <Failure what={failed(kept.value)} error={error.value} />}
      <form
        class="panel"
        onSubmit={(event) => {
          event.preventDefault();
          void submit(() => [plainDefinition(name.value.trim(), target.value.trim())]);
        }}
      >
        <label>
          Name
          <input required value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
        </label>
        <label>
          URL, or command with its arguments
          <input required value={target.value} onInput={(event) => (target.value = event.currentTarget.value)} />
        </label>
        <ExecToken />
        <button type="submit">Add</button> <Command text={`trunkline add ${shown}`} />
      </form>
      <form
        class="panel"
        onSubmit={(event) => {
          event.preventDefault();
          void submit(() => pastedDefinitions(json.value));
        }}
      >
        <label>
          Or the JSON of a client's file
          <textarea
            required
            rows={6}
            placeholder={EXAMPLE}
            value={json.value}
            onInput={(event) => (json.value = event.currentTarget.value)}
          />
        </label>
        <button type="submit">Add all of it</button> <Command text="trunkline import" />
      </form>
      <FromRegistry submit={submit} />
    </>
  );
}

function failed(added: readonly string[]): string {
  return added.length === 0
    ? 'Nothing was added'
    : `Only ${added.join(', ')} ${added.length === 1 ? 'was' : 'were'} added`;
}

function ExecToken() {
  return (
    <label>
      Exec token, for servers that run a program (the file <code>exec.token</code> of the data folder)
      <input
        type="password"
        autocomplete="off"
        value={execToken.value ?? ''}
        onInput={(event) => {
          execToken.value = event.currentTarget.value.trim() || null;
        }}
      />
    </label>
  );
}

function plainDefinition(name: string, target: string): Definition {
  if (/^https?:\/\//.test(target)) return { name, type: 'http', url: target };
  const [command = '', ...args] = commandWords(target);
  return { name, command, args };
}

function commandWords(text: string): string[] {
  return [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? '');
}

/** Of the containers that clients use; else one definition with its name. */
function pastedDefinitions(text: string): readonly Definition[] {
  let value: Definition;
  try {
    value = JSON.parse(text) as Definition;
  } catch (cause) {
    throw new Error(`This is not JSON: ${(cause as Error).message}`);
  }
  const container = value['mcpServers'] ?? value['servers'] ?? value['context_servers'];
  if (typeof container === 'object' && container !== null) {
    return Object.entries(container).map(([name, definition]) => ({ ...(definition as Definition), name }));
  }
  if (typeof value['name'] === 'string') return [value];
  throw new Error('The JSON has neither "mcpServers" nor the "name" of one server.');
}

import { type ClientLink, listClients } from '../api/operations.ts';
import { copyText } from '../parts/clipboard.ts';
import { Command } from '../parts/command.tsx';
import { Empty, Unread } from '../parts/notes.tsx';
import { useReading } from '../parts/reading.ts';
import { href, navigate, replace, route } from '../router.ts';
import './operating.css';

export default function Connect() {
  const { rest, query } = route.value;
  const agent = query.get('agent') ?? undefined;
  const found = useReading(() => listClients({ agent }), agent ?? '', { lists: ['configuration'] });
  if (found.value.value === null) return <Unread of={found} what="clients" />;
  const { url, key, agents, clients } = found.value.value;
  const chosen = clients.find(({ id }) => id === rest[0]);
  const here = clients.filter(({ installed }) => installed);
  const others = clients.filter(({ installed }) => !installed);
  return (
    <>
      <h1>Connect a client</h1>
      <p>
        Every MCP client connects to one address: <Command text={url} />
      </p>
      {agents.length === 0 ? null : (
        <label class="toolbar">
          As agent{' '}
          <select
            value={key?.agent ?? ''}
            onChange={(event) => replace(['connect', ...rest], { agent: event.currentTarget.value })}
          >
            {key === null ? <option value="">without a key</option> : null}
            {agents.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
      {key === null ? null : (
        <p>
          The key takes the place of <code>{key.placeholder}</code>; this prints it: <Command text={key.show} />
        </p>
      )}
      <div class="choice">
        <Choice title="On the machine of the gateway" clients={here} chosen={chosen} agent={agent} />
        <Choice title={here.length === 0 ? 'Clients' : 'Others'} clients={others} chosen={chosen} agent={agent} />
      </div>
      {chosen === undefined ? (
        <Empty title="Select a client to see its command or configuration." />
      ) : (
        <Client client={chosen} />
      )}
    </>
  );
}

interface ChoiceProps {
  readonly title: string;
  readonly clients: readonly ClientLink[];
  readonly chosen: ClientLink | undefined;
  readonly agent: string | undefined;
}

function Choice({ title, clients, chosen, agent }: ChoiceProps) {
  if (clients.length === 0) return null;
  return (
    <fieldset>
      <legend>{title}</legend>
      {clients.map(({ id, title: name }) => (
        <button
          key={id}
          type="button"
          aria-pressed={chosen?.id === id}
          onClick={() => navigate(['connect', id], agent === undefined ? {} : { agent })}
        >
          {name}
        </button>
      ))}
    </fieldset>
  );
}

function Client({ client: { title, command, file, content, link, syntax } }: { client: ClientLink }) {
  return (
    <section class="panel" aria-label={title}>
      <h2>{title}</h2>
      {command === null ? null : (
        <>
          <h3>With its own command</h3>
          <Command text={command} />
        </>
      )}
      <h3>On the machine of the gateway</h3>
      <p>
        <Command text={link} /> shows the change of the file before it writes it; <code>trunkline unlink</code> restores
        the file.
      </p>
      <h3>By hand</h3>
      <p>
        <code>{file}</code>, {syntax}. Where the file has servers already, add this one to them.
      </p>
      <pre class="file">{content}</pre>
      <button type="button" onClick={() => void copyText(content)}>
        Copy the file
      </button>
      <p class="soft">
        What this client sees: <a href={href(['access'])}>Access</a>
      </p>
    </section>
  );
}

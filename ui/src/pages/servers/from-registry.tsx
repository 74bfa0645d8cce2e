import { useSignal } from '@preact/signals';
import { useId } from 'preact/hooks';
import { serverNameOf } from '../../../../src/model/names.ts';
import { prepareServer, searchRegistry } from '../../api/operations.ts';
import { Command, shellWord } from '../../parts/command.tsx';
import { Empty, Failure, Loading } from '../../parts/notes.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import type { NewServer } from './add-with-secrets.ts';

type Found = Awaited<ReturnType<typeof searchRegistry>>;
type Listed = Found['servers'][number];
type Prepared = Awaited<ReturnType<typeof prepareServer>>;
type Input = Prepared['inputs'][number];

const COLUMNS: readonly Column<Listed>[] = [
  { id: 'name', title: 'Name', width: 'minmax(12rem, 2fr)', cell: ({ name }) => name, order: ({ name }) => name },
  { id: 'version', title: 'Version', width: '6rem', cell: ({ version }) => version, wideOnly: true },
  { id: 'ways', title: 'Runs as', width: '8rem', cell: ({ ways }) => ways.join(', ') || 'not here' },
  {
    id: 'about',
    title: 'Description',
    width: 'minmax(10rem, 4fr)',
    cell: ({ description, status }) => (status === 'active' ? description : `${status}: ${description}`),
    wideOnly: true,
  },
];

interface FromRegistryProps {
  /** Shows what the promise rejects with, and adds what it resolves with. */
  readonly submit: (prepare: () => Promise<NewServer>) => Promise<void>;
}

/** Finds a server in the MCP registry, asks for what it needs, and adds it. */
export function FromRegistry({ submit }: FromRegistryProps) {
  const words = useSignal('');
  const searching = useSignal(false);
  const found = useSignal<Found | null>(null);
  const chosen = useSignal<Prepared | null>(null);
  const failure = useSignal<{ readonly what: string; readonly error: Error } | null>(null);
  const attempt = async (what: string, run: () => Promise<void>): Promise<void> => {
    failure.value = null;
    await run().catch((error: Error) => (failure.value = { what, error }));
  };
  const search = async (): Promise<void> => {
    chosen.value = null;
    searching.value = true;
    const what = 'The registry could not be searched';
    await attempt(what, async () => void (found.value = await searchRegistry({ search: words.value.trim() })));
    searching.value = false;
  };
  const choose = (server: string, via?: string): Promise<void> =>
    attempt(
      `${server} cannot be added here`,
      async () =>
        void (chosen.value = await prepareServer({ body: { server, ...(via === undefined ? {} : { via }) } })),
    );
  return (
    <section class="panel" aria-label="From the registry">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void search();
        }}
      >
        <label>
          Or words that a server of the registry has in its name or description
          <input value={words.value} onInput={(event) => (words.value = event.currentTarget.value)} />
        </label>
        <button type="submit">Search</button>{' '}
        <Command text={`trunkline search ${shellWord(words.value.trim() || '<words>')}`} />
      </form>
      {failure.value === null ? null : <Failure {...failure.value} />}
      {searching.value ? <Loading what="the registry" /> : null}
      {found.value === null ? null : (
        <Table
          label={`Servers of ${found.value.registry}`}
          rows={found.value.servers}
          columns={COLUMNS}
          keyOf={({ name }) => name}
          onOpen={({ name, version }) => void choose(`${name}@${version}`)}
          selected={chosen.value?.name}
          empty={<Empty title={`No server of ${found.value.registry} has these words`} />}
        />
      )}
      {chosen.value === null ? null : (
        <Needed
          key={`${chosen.value.name} ${chosen.value.via}`}
          server={chosen.value}
          choose={(via) => void choose(`${chosen.value!.name}@${chosen.value!.version}`, via)}
          submit={submit}
        />
      )}
    </section>
  );
}

interface NeededProps extends FromRegistryProps {
  readonly server: Prepared;
  readonly choose: (via: string) => void;
}

/** The inputs of the chosen server. */
function Needed({ server, choose, submit }: NeededProps) {
  const name = useSignal(serverNameOf(server.name));
  const values = useSignal<Readonly<Record<string, string>>>({});
  const given = (): Readonly<Record<string, string>> =>
    Object.fromEntries(Object.entries(values.value).filter(([, value]) => value !== ''));
  const prepare = async (): Promise<NewServer> => {
    const wanted = { server: `${server.name}@${server.version}`, via: server.via, name: name.value.trim() };
    const { definition, lacking, secrets } = await prepareServer({ body: { ...wanted, values: given() } });
    if (definition === null) throw new Error(`${lacking.join(', ')}: a value is missing`);
    const kept = Object.entries(secrets).map(([input, secret]) => [secret, given()[input]!] as const);
    return { definition, secrets: Object.fromEntries(kept) };
  };
  const set = Object.entries(given()).map(([input, value]) => {
    const secret = server.inputs.some((one) => one.name === input && one.secret);
    return ` --set ${shellWord(`${input}=${secret ? '…' : value}`)}`;
  });
  return (
    <form
      aria-label={server.name}
      onSubmit={(event) => {
        event.preventDefault();
        void submit(prepare);
      }}
    >
      <h2>
        {server.name} {server.version}
      </h2>
      <p>{server.description}</p>
      {server.status === 'active' ? null : <p class="tone-warn">The registry says that it is {server.status}.</p>}
      <label>
        Runs as
        <select value={server.via} onChange={(event) => choose(event.currentTarget.value)}>
          {server.ways.map((via) => (
            <option key={via}>{via}</option>
          ))}
        </select>
      </label>
      <label>
        Name here
        <input required value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
      </label>
      {server.inputs.map((input) => (
        <InputField
          key={input.name}
          input={input}
          value={values.value[input.name] ?? ''}
          change={(value) => (values.value = { ...values.value, [input.name]: value })}
        />
      ))}
      <button type="submit">Add {name.value}</button>{' '}
      <Command
        text={`trunkline add ${server.name}@${server.version} --via ${server.via} --as ${shellWord(name.value)}${set.join('')}`}
      />
    </form>
  );
}

interface InputFieldProps {
  readonly input: Input;
  readonly value: string;
  readonly change: (value: string) => void;
}

/** One value that a server asks for. */
export function InputField({ input, value, change }: InputFieldProps) {
  const { name, description, required, secret, choices, default: usual } = input;
  const id = useId();
  const field = {
    id,
    required: required && usual === null,
    value,
    placeholder: usual ?? '',
    onInput: (event: { readonly currentTarget: { readonly value: string } }) => change(event.currentTarget.value),
  };
  return (
    <p class="asked">
      <label for={id}>{name}</label> <small>{description}</small>
      {choices !== null ? (
        <select {...field}>
          <option value="">{usual === null ? '' : `${usual} (default)`}</option>
          {choices.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      ) : secret ? (
        <input {...field} type="password" autocomplete="off" />
      ) : (
        <input {...field} />
      )}
    </p>
  );
}

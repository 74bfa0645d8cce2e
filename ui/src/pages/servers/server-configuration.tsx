import { getServerConfiguration } from '../../api/operations.ts';
import { Empty, Unread } from '../../parts/notes.tsx';
import { useReading } from '../../parts/reading.ts';
import { Table } from '../../parts/table.tsx';

/** Each value of the definition of a server, with the line that has it. */
export function ServerConfiguration({ name, node }: { readonly name: string; readonly node: string | undefined }) {
  const found = useReading(() => getServerConfiguration({ name, node }), `${name} ${node}`, {
    lists: ['configuration'],
  });
  if (found.value.value === null) return <Unread of={found} what="configuration" />;
  return (
    <Table
      label="Values"
      rows={found.value.value.values}
      keyOf={({ key, line, column }) => `${key} ${line} ${column}`}
      columns={[
        { id: 'key', title: 'Key', width: 'minmax(7rem, 1fr)', cell: ({ key }) => key, order: ({ key }) => key },
        { id: 'value', title: 'Value', width: 'minmax(7rem, 2fr)', cell: ({ value }) => <code>{value}</code> },
        {
          id: 'where',
          title: 'Written in',
          width: 'minmax(7rem, 2fr)',
          cell: ({ file, line }) => placeText(file, line),
        },
      ]}
      empty={<Empty title="No text defines this server: the program that runs the gateway does" />}
    />
  );
}

function placeText(file: string | null, line: number | null): string {
  if (file === null) return 'default';
  return file.startsWith('<') ? `added at run time, line ${line}` : `${file}:${line}`;
}

package checkback;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.UUID;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Spark's checkpoint files where nothing can be renamed: each is sent under its own name, and is there when all of it is.
 *
 * What must not be written over is sent on the condition that nothing has the name, which the store itself judges: of
 * two who send it at once one is refused. What fails is raised; Spark's own class for such stores
 * (AbortableStreamBasedCheckpointFileManager) logs it, and goes on as if the file were there.
 * A client whose answer was lost sends a file again, so each names its writer: another may have sent the same bytes.
 */
public class WholeFiles extends FileSystemBasedCheckpointFileManager {

    private static final String WRITER = "checkback-writer";

    public WholeFiles(Path path, Configuration configuration) {
        super(path, configuration);
    }

    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
        try {
            String writer = UUID.randomUUID().toString();
            return new WholeFile(path, writer, opened(path, writer, overwrite));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private FSDataOutputStream opened(Path path, String writer, boolean overwrite) throws IOException {
        FSDataOutputStreamBuilder file = fs().createFile(path);
        file.create();
        file.overwrite(overwrite);
        file.recursive();
        // without asking first what is there
        String how = overwrite ? "fs.s3a.create.performance" : "fs.option.create.conditional.overwrite";
        file.must(how, true);
        file.must("fs.s3a.create.header." + WRITER, writer);
        return (FSDataOutputStream) file.build();
    }

    private class WholeFile extends CheckpointFileManager.CancellableFSDataOutputStream {

        private final Path path;
        private final String writer;
        private final FSDataOutputStream file;
        private boolean ended = false;

        WholeFile(Path path, String writer, FSDataOutputStream file) {
            super(file);
            this.path = path;
            this.writer = writer;
            this.file = file;
        }

        public synchronized void close() throws IOException {
            if (ended) {
                return;
            }
            ended = true;
            try {
                file.close();
            } catch (IOException error) {
                if (!refused(error)) {
                    throw error;
                }
                byte[] found = (byte[]) fs().getXAttrs(path).get("header." + WRITER);
                if (found != null && new String(found).equals(writer)) {
                    return;
                }
                FileAlreadyExistsException there = new FileAlreadyExistsException(path + " is there already");
                there.initCause(error);
                throw there;
            }
        }

        public synchronized void cancel() {
            if (ended) {
                return;
            }
            ended = true;
            try {
                file.abort();
                file.close();
            } catch (Exception error) {
                // nothing has the name, and that is all that is asked for
            }
        }

        /** Whether the store has found the name taken (412); hadoop-aws' own class says so. */
        private boolean refused(Throwable error) {
            for (Throwable one = error; one != null; one = one.getCause()) {
                if (one.getClass().getName().endsWith(".RemoteFileChangedException")) {
                    return true;
                }
            }
            return false;
        }
    }
}
